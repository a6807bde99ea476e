"""Read the files of an include folder: schemas, policies and suites, with errors that name file and field."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.choice import did_you_mean
from privacy_engine.errors import LONGEST, PrivacyEngineError, Problem, ProblemsError, SpecError
from privacy_release.config.host import answer_of
from privacy_release.config.problems import shortened, wrong
from privacy_release.config.settings import VARIABLES, setting
from privacy_release.spec.lines import located
from privacy_release.spec.reading import LARGEST_HIERARCHY, read_mapping, read_text

if TYPE_CHECKING:
    from privacy_engine.tables.hierarchy import Hierarchy
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.policy import ReleasePolicy


def include_folder() -> Path:
    """Return the folder with releases, policies, hierarchies and expectations.

    It is `include` under the option `home`, or else in the checkout that contains this package.

    Raises:
        SpecError: If there is no such folder.
    """
    chosen = setting("home")
    home = Path(chosen).expanduser() if chosen else Path(__file__).resolve().parents[2]
    folder = home / "include"
    if not folder.is_dir():
        raise SpecError(
            f"{folder} must be a folder: set {VARIABLES['home']} to the folder that contains include/"
        )
    return folder


def load_schema(schema: str | Path | Mapping[str, Any]) -> "DataSchema":
    """Read a schema from a YAML or JSON file, or from the mapping in a release's `schema`.

    Paths of the file and of hierarchies are absolute or relative to the include folder. A file that does not
    exist there is searched among the files that the Airflow provider ships.

    Raises:
        SpecError: Naming the file, the column and the remedy.
    """
    from privacy_engine.tables.schema import DataSchema

    fields, place = _fields(schema, "schema")
    trees: dict[str, Hierarchy] = {}
    for column, attribute in fields.items():
        name = attribute.get("hierarchy") if isinstance(attribute, Mapping) else None
        if isinstance(name, str) and name not in trees:
            try:
                trees[name] = read_hierarchy(_hierarchy_path(name, in_file=not isinstance(schema, Mapping)))
            except SpecError as error:
                raise wrong(str(place), f"{column}.hierarchy: {error}") from None
    try:
        return DataSchema.from_dict(fields, trees)
    except PrivacyEngineError as error:
        if isinstance(place, Path):
            raise located(place, error) from None
        raise ProblemsError(_wrong_columns(fields, trees) or [Problem(text=f"{place}: {error}")]) from None


def _wrong_columns(fields: Mapping[str, Any], trees: "Mapping[str, Hierarchy]") -> list[Problem]:
    """Return the problems of each column by itself."""
    from privacy_engine.tables.attribute import Attribute

    found = []
    for name, attribute in fields.items():
        if name == "person":  # also a field of the schema
            continue
        try:
            Attribute.from_dict(name, attribute, trees)
        except PrivacyEngineError as error:
            found.append(Problem(text=f"schema: {error}", path=("schema", name)))
    return found


def load_tables(tables: Mapping[str, Mapping[str, Any]], person: str) -> "DataSchema":
    """Read the schema of several tables that share a person, as one schema.

    Args:
        tables: For each table its `schema`; the columns of other tables that are carried to it, as `carry`;
            and the name of the column that names the person, as `person`, if it differs.
        person: Name of the person's column in the release.

    Raises:
        SpecError: As `load_schema`, or if the tables do not fit together.
    """
    from privacy_engine.tables.linked import renamed_person, schema_of_tables

    schemas = {name: load_schema(fields["schema"]) for name, fields in tables.items()}
    try:
        for name, fields in tables.items():
            schemas[name] = renamed_person(schemas[name], fields.get("person") or person, person)
        return schema_of_tables(schemas, person, {n: f.get("carry", ()) for n, f in tables.items()})
    except PrivacyEngineError as error:
        raise wrong("tables", str(error)) from None


def _hierarchy_path(name: str, *, in_file: bool) -> Path:
    """Return the path of a hierarchy. A file may only name those of the include folder; a program any."""
    return file_within(_home(), name) if in_file else _include_path(name)


def read_hierarchy(path: Path) -> "Hierarchy":
    """Read a hierarchy from its CSV file.

    Raises:
        SpecError: Naming the file and the remedy.
    """
    from privacy_engine.tables.hierarchy import Hierarchy, HierarchyError

    text = read_text(path, LARGEST_HIERARCHY)
    try:
        return Hierarchy.from_csv(text)
    except HierarchyError as error:
        problem = Problem(text=str(error), file=shortened(str(path), LONGEST), line=error.line)
        raise ProblemsError([problem]) from None
    except PrivacyEngineError as error:
        raise wrong(path, str(error)) from None


def load_policy(policy: str | Path | Mapping[str, Any]) -> "ReleasePolicy":
    """Read a policy from a YAML file (absolute, or relative to the include folder) or a mapping.

    Raises:
        SpecError: Naming the file and the field.
    """
    from privacy_engine.verification.policy import ReleasePolicy

    fields, place = _fields(policy, "policy")
    try:
        return ReleasePolicy.from_dict(fields)
    except PrivacyEngineError as error:
        raise (located(place, error) if isinstance(place, Path) else wrong(place, str(error))) from None


def load_suite(suite: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """Read a Great Expectations suite from a JSON file (absolute or in the include folder) or a mapping.

    A mapping of `context`, a folder with a `great_expectations.yml`, and `checkpoint` names a Checkpoint
    instead. It is returned with the absolute path of the folder.

    Raises:
        SpecError: If it is no mapping with `name` and at least one expectation, and names no checkpoint.
    """
    fields, place = _fields(suite, "suite")
    if "checkpoint" in fields:
        if fields.keys() != {"context", "checkpoint"} or not all(isinstance(v, str) for v in fields.values()):
            raise wrong(place, "a checkpoint must have its context and its name, both text; correct it")
        return fields | {"context": str(_include_path(fields["context"]))}
    expectations = fields.get("expectations")
    if not isinstance(fields.get("name"), str) or not isinstance(expectations, list) or not expectations:
        raise wrong(place, "a suite must have a name and a list of at least one of expectations; add them")
    return fields


def _fields(given: str | Path | Mapping[str, Any], what: str) -> tuple[dict[str, Any], Path | str]:
    """Return a mapping, from a file or as given, with the file or its name for errors."""
    if isinstance(given, Mapping):
        return dict(given), what
    path = _include_path(given)
    return read_mapping(path), path


def _include_path(path: str | Path) -> Path:
    """Return a file by its absolute path, or by its path below the include folder."""
    return Path(path) if Path(path).is_absolute() else file_below(None, path)


def file_below(home: Path | None, path: str | Path) -> Path:
    """Return a file of an include folder, or else the provider's file of that name.

    Args:
        home: Include folder. None: that of `include_folder`.
        path: Path relative to it. An absolute path is unchanged.

    Raises:
        SpecError: If there is no include folder, and the provider has no such file.
    """
    try:
        own = (home or include_folder()) / path
    except SpecError:
        if (brought := _brought(path)) is None:
            raise
        return brought
    return own if own.exists() else _brought(path) or own


def file_within(home: Path, name: str) -> Path:
    """Return a file that another file names: of the include folder, or of the provider's.

    The author of a release file chooses among the policies, suites and hierarchies in these folders. The file
    cannot use others from elsewhere.

    Raises:
        SpecError: If the name leads out of these folders, directly or by a symbolic link, or to no file.
    """
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise wrong(
            name, f"must be a path below {home}, without '..'; put the file there and use its path", " "
        )
    try:
        found = file_below(home, name)
        folders = [folder.resolve() for folder in (home, _shipped()) if folder is not None]
        inside = any(found.resolve().is_relative_to(folder) for folder in folders)
        exists = found.is_file()
    except (OSError, ValueError, RuntimeError):  # too long a name, a null byte, circular links
        raise wrong(name, f"must be the path of a file below {home}; correct the path", " ") from None
    if not exists:
        hint = did_you_mean(found.name, _names_in(found.parent))
        raise wrong(f"the file {found}", f"must exist; correct the path, it is relative to {home}{hint}", " ")
    if not inside:
        raise wrong(
            f"the file {found}",
            f"must be below {home}, but a symbolic link leads out of it; put the file itself there",
            " ",
        )
    return found


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def _brought(path: str | Path) -> Path | None:
    """Return the provider's file of that name, if it has one."""
    shipped = _shipped()
    file = None if shipped is None else shipped / path
    return file if file is not None and file.is_file() else None


def _home() -> Path:
    """Return the include folder, or else the provider's."""
    try:
        return include_folder()
    except SpecError:
        if (shipped := _shipped()) is None:
            raise
        return shipped


def _shipped() -> Path | None:
    """Return the include folder of the provider."""
    shipped = answer_of("shipped")
    return None if shipped is None else Path(shipped())
