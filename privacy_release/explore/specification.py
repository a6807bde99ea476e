"""Change method and parameters in the text of a specification's file, and nothing else."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from privacy_engine import plain_yaml
from privacy_engine.errors import SpecError
from privacy_release.config.problems import wrong
from privacy_release.explore.choices import Choice
from privacy_release.spec.reading import LARGEST_YAML, mapping_of, read_text

if TYPE_CHECKING:
    from privacy_release.spec.model import ReleaseSpec

_WIDE = 1 << 16  # characters of a line, so that none is folded


def fields_of(spec: "ReleaseSpec", choice: Choice) -> dict[str, Any]:
    """Return the fields of `release` for a choice. The seed is kept."""
    seed = {} if spec.release.seed is None else {"seed": spec.release.seed}
    return {"method": choice.method, **choice.parameters, **seed}


def flow(value: object) -> str:
    """Return a value on one line of YAML."""
    text: str = yaml.safe_dump(
        value, default_flow_style=True, width=_WIDE, sort_keys=False, allow_unicode=True
    )
    return text.removesuffix("\n").removesuffix("\n...")


def with_choice(path: Path, release: Mapping[str, Any]) -> str:
    """Return the text of a specification's file with another `release`.

    Comments, order and form of the rest stay, to the byte.

    Args:
        path: Path of the file.
        release: New fields of `release`.

    Raises:
        SpecError: If the file cannot be read, or its form does not allow the change.
    """
    text = read_text(path, LARGEST_YAML)
    document = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs = document.value if isinstance(document, yaml.MappingNode) else []
    node = next((value for key, value in pairs if key.value == "release"), None)
    if not isinstance(node, yaml.MappingNode):
        raise wrong(path, "release must be a mapping; write it as in include/releases")
    changed = _changed(text, node, release)
    before, after = (mapping_of(content.encode(), path) for content in (text, changed))
    if after != before | {"release": dict(release)}:  # for example because of an alias
        raise SpecError(f"release of {path.name} cannot be changed in place; write it out as {flow(release)}")
    return changed


def _changed(text: str, node: yaml.MappingNode, release: Mapping[str, Any]) -> str:
    """Change key by key, from the last to the first, so that earlier ones keep their position."""
    old = {key.value: (key, value) for key, value in node.value}
    kept = [name for name in old if name in release]
    if not kept:  # there is no key to keep
        return text[: node.start_mark.index] + flow(dict(release)) + text[_end(text, node) :]
    added = [f"{name}: {flow(value)}" for name, value in release.items() if name not in old]
    indent = " " * next(iter(old.values()))[0].start_mark.column
    between = ", " if node.flow_style else f"\n{indent}"
    for name in reversed(old):
        key, value = old[name]
        begin, end = value.start_mark.index, _end(text, value)
        if name in release:
            addition = "".join(between + one for one in added) if name == kept[-1] else ""
            if addition and not node.flow_style:  # a comment after the value stays next to it
                line_end = text.find("\n", end)
                line_end = len(text) if line_end < 0 else line_end
                text = text[:line_end] + addition + text[line_end:]
                addition = ""
            same = mapping_of(f"x: {flow(release[name])}".encode(), Path("x.yaml")) == _value(text[begin:end])
            text = text[:begin] + (text[begin:end] if same else flow(release[name])) + addition + text[end:]
        elif node.flow_style:
            text = _without_flow(text, key.start_mark.index, end)
        else:
            begin = text.rfind("\n", 0, key.start_mark.index) + 1
            line_end = text.find("\n", end)
            text = text[:begin] + ("" if line_end < 0 else text[line_end + 1 :])
    return text


def _value(text: str) -> dict[str, Any] | None:
    """Return the present value. None if it cannot be parsed by itself."""
    try:
        found = plain_yaml.load(text)
    except yaml.YAMLError:
        return None
    return {"x": found}


def _end(text: str, node: yaml.Node) -> int:
    """Return the end of a value, without the white space and comments that follow."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    end: int = node.end_mark.index
    return len(text[:end].rstrip())


def _without_flow(text: str, begin: int, end: int) -> str:
    """Remove an entry of `{a: 1, b: 2}` and one comma next to it."""
    rest = text[end:].lstrip()
    if rest.startswith(","):
        return text[:begin] + rest[1:].lstrip()
    return text[:begin].rstrip().removesuffix(",") + text[end:]


def write_over(path: Path, text: str) -> None:
    """Replace the text of a file atomically, with the same permissions.

    Raises:
        SpecError: If its folder or file cannot be written.
    """
    try:
        mode = path.stat().st_mode & 0o777
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name}.", encoding="utf-8", newline="", delete=False
        ) as file:
            new = Path(file.name)
            try:
                file.write(text)
                file.flush()
                new.chmod(mode)
                new.replace(path)
            except BaseException:
                new.unlink()
                raise
    except OSError as error:
        raise SpecError(
            f"{path} must be writable, got {type(error).__name__}; write release into it by hand"
        ) from None
