"""The files of an include folder: schemas, policies and suites, with errors that name file and field."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from privacy_engine.errors import PrivacyEngineError, SpecError
from privacy_release.work.host import answer_of
from privacy_release.work.settings import VARIABLES, setting

if TYPE_CHECKING:
    from privacy_engine.judge.policy import ReleasePolicy
    from privacy_engine.tables.schema import DataSchema


def include_folder() -> Path:
    """The folder with releases, policies, hierarchies and expectations.

    It is `include` under the option `home`, else under the checkout that this package lies in.

    Raises:
        SpecError: if there is no such folder.
    """
    chosen = setting("home")
    home = Path(chosen).expanduser() if chosen else Path(__file__).resolve().parents[2]
    folder = home / "include"
    if not folder.is_dir():
        raise SpecError(
            f"{folder} must be a folder: set {VARIABLES['home']} to the folder that holds include/"
        )
    return folder


def load_schema(schema: str | Path | Mapping[str, Any]) -> "DataSchema":
    """A schema from a YAML or JSON file, or from the mapping that stands in a release's `schema`.

    Paths of the file and of hierarchies are absolute or relative to the include folder; what is not there is
    looked for among the files that the Airflow provider ships.

    Raises:
        SpecError: naming the file, the column and what to do.
    """
    from privacy_engine.tables.hierarchy import Hierarchy
    from privacy_engine.tables.schema import DataSchema

    fields, place = _fields(schema, "schema")
    trees: dict[str, Hierarchy] = {}
    for column, attribute in fields.items():
        name = attribute.get("hierarchy") if isinstance(attribute, Mapping) else None
        if isinstance(name, str) and name not in trees:
            file = _include_path(name)
            try:
                trees[name] = Hierarchy.from_csv(file.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                kind = type(error).__name__
                raise SpecError(
                    f"{place}: {column}.hierarchy: {file} must be a readable UTF-8 file, got {kind}; "
                    "correct the path"
                ) from None
            except PrivacyEngineError as error:
                raise SpecError(f"{place}: {column}.hierarchy: {file}: {error}") from None
    try:
        return DataSchema.from_dict(fields, trees)
    except PrivacyEngineError as error:
        raise SpecError(f"{place}: {error}") from None


def load_policy(policy: str | Path | Mapping[str, Any]) -> "ReleasePolicy":
    """A policy from a YAML file (absolute, or relative to the include folder) or a mapping.

    Raises:
        SpecError: naming the file and the field.
    """
    from privacy_engine.judge.policy import ReleasePolicy

    fields, place = _fields(policy, "policy")
    try:
        return ReleasePolicy.from_dict(fields)
    except PrivacyEngineError as error:
        raise SpecError(f"{place}: {error}") from None


def load_suite(suite: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """A Great Expectations suite from a JSON file (absolute, or relative to the include folder) or a mapping.

    Raises:
        SpecError: if it is no mapping with `name` and at least one expectation.
    """
    fields, place = _fields(suite, "suite")
    expectations = fields.get("expectations")
    if not isinstance(fields.get("name"), str) or not isinstance(expectations, list) or not expectations:
        raise SpecError(
            f"{place}: a suite must have a name and a list of at least one of expectations; add them"
        )
    return fields


def _fields(given: str | Path | Mapping[str, Any], what: str) -> tuple[dict[str, Any], str]:
    """A mapping, from a file or as it is, and its name for errors."""
    if isinstance(given, Mapping):
        return dict(given), what
    path = _include_path(given)
    return read_mapping(path), str(path)


def _include_path(path: str | Path) -> Path:
    """A file by its absolute path, or by that below the include folder."""
    return Path(path) if Path(path).is_absolute() else file_below(None, path)


def file_below(home: Path | None, path: str | Path) -> Path:
    """A file of an include folder; where it has none of that name, the one that the provider brings.

    Args:
        home: the include folder; None: that of `include_folder`.
        path: relative to it; an absolute one stays as it is.

    Raises:
        SpecError: if there is no include folder, and the provider brings no such file.
    """
    try:
        own = (home or include_folder()) / path
    except SpecError:
        if (brought := _brought(path)) is None:
            raise
        return brought
    return own if own.exists() else _brought(path) or own


def _brought(path: str | Path) -> Path | None:
    """The file of that name that the provider brings, if it does."""
    shipped = answer_of("shipped")
    file = None if shipped is None else Path(shipped()) / path
    return file if file is not None and file.is_file() else None


def read_mapping(path: Path) -> dict[str, Any]:
    """The fields of a YAML or JSON file.

    Raises:
        SpecError: if it cannot be read, is no mapping, or names a field twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            f"{path} must be a readable UTF-8 file, got {type(error).__name__}; correct the path"
        ) from None
    try:
        fields = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=_UniqueKeys)
    except json.JSONDecodeError as error:
        raise SpecError(f"{path}: must be JSON; mend line {error.lineno}: {error.msg}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        raise SpecError(
            f"{path}: must be YAML; mend {line}{getattr(error, 'problem', None) or 'its form'}"
        ) from None
    if not isinstance(fields, dict):
        raise SpecError(
            f"{path}: must be a mapping of fields, got {type(fields).__name__}; see include/releases"
        )
    return fields


class _UniqueKeys(yaml.SafeLoader):
    """YAML in which no key stands twice: the last role of a column would win in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping; a repeated key is an error."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(set(map(str, keys))) < len(keys):
            raise yaml.constructor.ConstructorError(
                None, None, "a field stands twice here, remove one", node.start_mark
            )
        return super().construct_mapping(node, deep)
