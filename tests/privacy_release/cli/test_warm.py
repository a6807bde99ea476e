"""`privacy-release warm`: after it, no release compiles anything."""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from privacy_engine.registry import METHODS, detector_names, method_names
from privacy_engine.signatures import from_text, kernel_of, to_text
from privacy_release.cli.main import WRONG, main
from privacy_release.cli.warm import ATTACKS, HISTORY, PURPOSES, Signature, chosen, read_signatures
from tests.import_graph import ROOT, modules, tree

FEW = ["okplof"]  # with few compiled functions
NAMES = (*method_names(), *detector_names(), ATTACKS)


def run(*arguments: str, **settings: str) -> str:
    # Processes that share a pipe write a message at a time.
    environment = os.environ | {"PYTHONUNBUFFERED": "1"} | settings
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


def kernels() -> Iterator[str]:
    """Every function of the engine that is compiled by itself."""
    for module, path in modules().items():
        # Parsing all of them takes seconds.
        if module.startswith("privacy_engine.") and "@kernel(" in path.read_text():
            for node in ast.walk(tree(module)):
                if isinstance(node, ast.FunctionDef):
                    how = [ast.unparse(decorator) for decorator in node.decorator_list]
                    if any(d.startswith("kernel(") and "always" not in d for d in how):
                        yield f"{module}:{node.name}"


def test_every_compiled_function_of_the_engine_is_listed() -> None:
    missing = set(kernels()) - {signature.kernel for signature in read_signatures()}
    assert not missing, "`make signatures` lists what releases compile; add a release to tests/compiling.py"


def test_what_is_listed_can_be_called() -> None:
    for place, signature in enumerate(read_signatures()):
        function = kernel_of(signature.kernel).py_func
        assert len(inspect.signature(function).parameters) == len(signature.arguments), signature.kernel
        assert tuple(to_text(from_text(text)) for text in signature.arguments) == signature.arguments
        assert all(called < place for called in signature.calls)


def test_every_name_and_purpose_compiles_something() -> None:
    uses = {use for signature in read_signatures() for use in signature.uses}
    without = {name for name in method_names() if METHODS[name].family == "randomizer"}
    assert uses == {*PURPOSES, *NAMES, HISTORY} - without


def test_what_is_called_is_compiled_with_its_caller() -> None:
    def listed(*calls: int, uses: str = "") -> Signature:
        return Signature(kernel="m:f", arguments=(), seconds=1.0, calls=calls, uses=frozenset(uses.split()))

    signatures = [listed(), listed(0), listed(), listed(1, uses="a"), listed(2, uses="b")]
    assert chosen(signatures, ["a"]) == {0, 1, 3}
    assert chosen(signatures, ["a", "b"]) == {0, 1, 2, 3, 4}


# Every method, detector and attack once: only this finds types that are missing in the list.
@pytest.mark.slow
def test_no_release_calls_what_is_not_listed() -> None:
    lines = run("-m", "tests.compiling", *NAMES, HISTORY).splitlines()
    called = {tuple(json.loads(line)[2:]) for line in lines if line.startswith('["')}
    listed = {(*signature.kernel.split(":"), *signature.arguments) for signature in read_signatures()}
    assert called
    assert called <= listed, "`make signatures` lists what releases compile"


# In an empty folder, which takes as long as it takes to compile these functions.
@pytest.mark.slow
def test_each_function_is_compiled_once_and_none_by_a_release_after_it(tmp_path: Path) -> None:
    # The quality of the code does not matter; below 1, numba leaves addresses in it and cannot keep it.
    fast = {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "1", "NUMBA_DEBUG_CACHE": "1"}
    said = run("-m", "privacy_release.cli.main", "warm", *FEW, "--processes", "2", **fast)
    total = len(chosen(read_signatures(), FEW))
    assert re.search(rf"^ *{total} of {total} functions", said, re.MULTILINE)
    assert f"kept in {tmp_path}" in said
    compiled = re.findall(r"\[cache\] data saved to '([^']+)'", said)
    assert len(compiled) == len(set(compiled)) == total
    lines = run("-m", "tests.compiling", *FEW, **fast).splitlines()
    reports = [json.loads(line) for line in lines if line.startswith('["')]
    assert reports
    assert not [report for report in reports if report[1] == "compiled"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mondrain"], "METHOD must be one of mondrian"),
        (["--processes", "0"], "--processes must be >= 1, got 0"),
    ],
)
def test_a_wrong_argument_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["warm", *arguments]) == WRONG
    assert said in capsys.readouterr().err
