"""What pytest collects from a file: only a module with examples is imported for them."""

from pathlib import Path

import pytest


@pytest.mark.parametrize(("text", "collectors"), [("x = 1\n", 0), ('"""\n>>> 1\n1\n"""\n', 1)])
def test_a_module_is_imported_for_examples_only_if_it_has_one(
    request: pytest.FixtureRequest, tmp_path: Path, text: str, collectors: int
) -> None:
    file = tmp_path / "module.py"
    file.write_text(text)
    found = request.session.ihook.pytest_collect_file(file_path=file, parent=request.session)
    assert len(found) == collectors
