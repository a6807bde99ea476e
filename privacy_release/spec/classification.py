"""The classification of a deployment: the classes of its sources' columns, independent of release files.

It is a file next to the floor policy, which authors of release files cannot change. A release file may give
a column a stricter role than its class, never a weaker one. The roles have no linear order: a postcode as
`sensitive` is linked to people as easily as before, and a diagnosis as `quasi_identifier` loses its
diversity. So `STANDS_FOR` lists the roles that a class may have.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from privacy_engine.choice import choice, did_you_mean
from privacy_engine.errors import PrivacyEngineError, Problem, ProblemsError, SpecError, VerificationError
from privacy_engine.vocabulary import Kind, Meaning, Role
from privacy_release.config.places import normal
from privacy_release.config.problems import wrong
from privacy_release.config.settings import SECTION, VARIABLES, setting
from privacy_release.spec.lines import located
from privacy_release.spec.reading import LARGEST_YAML, mapping_of, read_file
from privacy_release.spec.selects import view_of

if TYPE_CHECKING:
    from privacy_engine.tables.attribute import Attribute
    from privacy_engine.tables.schema import DataSchema

OPTION = "classification"
AUTHOR, REFUSE = "author", "refuse"
# Class of a column -> the roles that a release may give it.
STANDS_FOR: Mapping[Role, frozenset[Role]] = MappingProxyType(
    {
        Role.IDENTIFIER: frozenset({Role.IDENTIFIER}),
        Role.QUASI_IDENTIFIER: frozenset({Role.IDENTIFIER, Role.QUASI_IDENTIFIER}),
        Role.SENSITIVE: frozenset({Role.IDENTIFIER, Role.SENSITIVE}),
        Role.INSENSITIVE: frozenset({Role.IDENTIFIER, Role.QUASI_IDENTIFIER, Role.INSENSITIVE}),
    }
)
_NOTE = f"it is the {OPTION} of section [{SECTION}] or {VARIABLES[OPTION]}; nothing is released without it"
_TOP = ("unlisted", "columns", "made", "sources")
_SOURCE = ("address", "connection", "view", "unlisted", "columns")
_CLASS = ("role", "kind", "meaning")


@dataclass(frozen=True, kw_only=True)
class ColumnClass:
    """The class of a column.

    Attributes:
        role: Role of the class. A release may use the roles that `STANDS_FOR` lists for it.
        kind: Kind that a release must state. None: any.
        meaning: Meaning that a release must state. None: any.
    """

    role: Role
    kind: Kind | None = None
    meaning: Meaning | None = None


Classes = tuple[tuple[str, ColumnClass], ...]
Place = tuple[str | int, ...]  # path of a field in the file


@dataclass(frozen=True, kw_only=True)
class SourceClass:
    """A source in the classification.

    Attributes:
        address: Pattern of its address. None for a view.
        connection, view: Connection and view of a database, as a query names them.
        columns: Pairs of name pattern and class. The first that matches counts.
        unlisted: Treatment of columns that no pattern matches.
    """

    address: str | None
    connection: str | None
    view: str | None
    columns: Classes
    unlisted: str


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The classes of the columns of all sources.

    Attributes:
        path: Path of its file.
        sha256: SHA-256 of the file's bytes, as references record it.
        columns: Classes for every source, after those of the source itself.
        made: Classes of columns that a release derives or computes, by their exact name.
        sources: Sources, of which the first that matches counts.
        unlisted: Treatment of columns that no pattern matches: `refuse` them, or leave their role to the
            `author` of the release.
    """

    path: Path
    sha256: str
    columns: Classes
    made: Mapping[str, ColumnClass]
    sources: tuple[SourceClass, ...]
    unlisted: str

    def of_addresses(self, addresses: Iterable[str]) -> SourceClass | None:
        """Return the source that all of these addresses belong to. None if they belong to no listed one.

        Raises:
            SpecError: If they belong to different ones.
        """
        found = {self._of_address(address) for address in addresses}
        if len(found) > 1:
            raise SpecError(
                f"the files of a source must be of one source of the classification {self.path}, got "
                f"{len(found)}; read them as separate tables"
            )
        return found.pop() if found else None

    def of_query(self, connection: str, sql: str) -> SourceClass:
        """Return the view that a query reads.

        Raises:
            SpecError: If the query does more than select columns of a listed view.
        """
        views = {source.view: source for source in self.sources if source.connection == connection}
        if (view := view_of(sql)) in views and view is not None:
            return views[view]
        raise SpecError(
            f"source.sql must select columns of one of the views that the classification {self.path} lists "
            f"for the connection {connection} ({', '.join(map(str, views)) or 'none'}), without other "
            "names, functions, joins or further queries: `SELECT a, b FROM view WHERE ...`; define a view in "
            "the database, and request its listing"
        )

    def require(self, schema: "DataSchema", source: SourceClass | None) -> None:
        """Raise if roles, kinds or meanings are weaker than the classes of a source's columns.

        Args:
            schema: Schema of the source, as the release declares it.
            source: Result of `of_addresses` or `of_query`.

        Raises:
            SpecError: Naming each column, its class, and the allowed roles.
        """
        self._raise([problem for a in schema.attributes for problem in self._problems(a, schema, source)])

    def require_made(
        self, new: "DataSchema", old: "DataSchema", made_of: Mapping[str, Sequence[str]]
    ) -> None:
        """Raise if a step of the release makes columns with roles that are weaker than those of its input.

        Args:
            new: Schema of the step's output.
            old: Schema of the step's input.
            made_of: Columns that each new one is computed from. A missing one may be computed from any.

        Raises:
            SpecError: Naming each column, and the allowed roles.
        """
        roles = {a.name: a.role for a in old.attributes if a.role is not Role.IDENTIFIER}
        made = [a for a in new.attributes if a.role is not Role.IDENTIFIER]
        self._raise(
            [
                problem
                for a in made
                for problem in self._problems_of_made(a, {n: roles[n] for n in made_of.get(a.name, roles)})
            ]
        )

    def _of_address(self, address: str) -> SourceClass | None:
        found = normal(address)
        named = [source for source in self.sources if source.address is not None]
        return next((s for s in named if fnmatchcase(found, normal(str(s.address)))), None)

    def _class_of(self, name: str, source: SourceClass | None) -> ColumnClass | None:
        """Return the class of a source column. None if its role is left to the author."""
        patterns = (*(source.columns if source is not None else ()), *self.columns)
        return next(
            (of for pattern, of in patterns if fnmatchcase(name.casefold(), pattern.casefold())), None
        )

    def _unlisted(self, source: SourceClass | None) -> str:
        return self.unlisted if source is None else source.unlisted

    def _problems(self, a: "Attribute", schema: "DataSchema", source: SourceClass | None) -> list[str]:
        if a.derive is not None:
            return self._problems_of_made(a, self._roles_of(a.derive.columns, schema, source))
        of = self._class_of(a.name, source)
        released = a.role is not Role.IDENTIFIER or a.pseudonym is not None
        released |= schema.linked and a.name == schema.by
        if of is not None:
            return _contradictions(a, of, as_pseudonym=released and a.role is Role.IDENTIFIER)
        if self._unlisted(source) == AUTHOR or not released:
            return []
        return [f"{a.name} has no class, and unlisted columns are refused: have it listed, or do not read it"]

    def _roles_of(
        self, names: Sequence[str], schema: "DataSchema", source: SourceClass | None
    ) -> dict[str, Role]:
        """Return the roles of a source's columns, without those that are left to the author."""
        classes = {name: self._class_of(name, source) for name in names}
        if self._unlisted(source) == AUTHOR:
            return {name: of.role for name, of in classes.items() if of is not None}
        return {name: schema[name].role if of is None else of.role for name, of in classes.items()}

    def _problems_of_made(self, a: "Attribute", parents: Mapping[str, Role]) -> list[str]:
        if (of := self.made.get(a.name)) is not None:
            return _contradictions(a, of)
        allowed = frozenset(Role).intersection(*(STANDS_FOR[role] for role in parents.values()))
        if a.role in allowed:
            return []
        return [
            f"{a.name} is computed from {', '.join(parents)}, so it must be {_listed(allowed)}, got "
            f"{a.role.value}: correct its role, or have it listed as `made`"
        ]

    def _raise(self, found: Sequence[str]) -> None:
        if found:
            raise SpecError(f"columns contradict the classification {self.path}: {'; '.join(found)}")


def classification() -> Classification | None:
    """Return the classification of this deployment. None if there is none.

    Raises:
        SpecError: If one is set but cannot be read, so that no release runs without it.
    """
    chosen = setting(OPTION)
    return None if chosen is None else read_classification(Path(chosen).expanduser())


def classified(
    schema: "DataSchema", *, addresses: Sequence[str] = (), query: tuple[str, str] | None = None
) -> str | None:
    """Check the columns of a source against the classification of this deployment, before it is read.

    Args:
        schema: Schema of the source, as the release declares it.
        addresses: Addresses of its files, or of the folder of a table.
        query: Connection and text of a query, instead of addresses.

    Returns:
        The SHA-256 of the classification, as references record it. None if there is none.

    Raises:
        SpecError: If a column contradicts its class, or the source must not be read.
    """
    found = classification()
    if found is None:
        return None
    found.require(schema, found.of_query(*query) if query else found.of_addresses(addresses))
    return found.sha256


def require_classified(hashes: Iterable[str | None]) -> None:
    """Raise if the columns of a release were not checked against the current classification.

    Args:
        hashes: Result of `classified` for each of its sources.

    Raises:
        VerificationError: If there is a classification, and it is another one.
        SpecError: If it cannot be read.
    """
    found = classification()
    if found is not None and set(hashes) != {found.sha256}:
        raise VerificationError(
            f"the columns of the release were not checked against the classification {found.path}, which was "
            "set or changed since; run the release again"
        )


def _contradictions(a: "Attribute", of: ColumnClass, *, as_pseudonym: bool = False) -> list[str]:
    if as_pseudonym and of.role is not Role.IDENTIFIER:
        return [f"{a.name} is classified as {of.role.value}, but only identifiers are released as pseudonyms"]
    found = []
    if a.role not in STANDS_FOR[of.role]:
        allowed = _listed(STANDS_FOR[of.role])
        found.append(
            f"{a.name} is classified as {of.role.value}, so it must be {allowed}, got {a.role.value}"
        )
    if a.role is Role.IDENTIFIER:
        return found
    if of.kind is not None and a.kind is not of.kind:
        found.append(f"{a.name} must be of the kind {of.kind.value}, got {a.kind.value}")
    if of.meaning is not None and a.about is not of.meaning:
        got = a.about.value if a.about is not None else "none"
        found.append(f"{a.name} must state the meaning {of.meaning.value}, got {got}")
    return found


def _listed(roles: Iterable[Role]) -> str:
    return " or ".join(role.value for role in Role if role in roles)


def read_classification(path: Path) -> Classification:
    """Read a classification from its file.

    Raises:
        SpecError: If it cannot be read, naming the line and the field.
    """
    if not path.is_absolute():
        raise wrong(path, f"must be an absolute path: {_NOTE}", " ")
    try:
        data = read_file(path, LARGEST_YAML)
        fields = _known(mapping_of(data, path), _TOP, ())
        unlisted = _unlisted_of(fields, REFUSE, ())
        sources = fields.get("sources", [])
        if not isinstance(sources, list):
            raise _refused(("sources",), "must be a list")
        return Classification(
            path=path,
            sha256=hashlib.sha256(data).hexdigest(),
            columns=_classes_of(fields.get("columns", {}), ("columns",)),
            made=dict(_classes_of(fields.get("made", {}), ("made",))),
            sources=tuple(_source_of(entry, unlisted, ("sources", i)) for i, entry in enumerate(sources)),
            unlisted=unlisted,
        )
    except PrivacyEngineError as error:
        raise wrong("the classification", f"{located(path, error)}; {_NOTE}", " ") from None


def _source_of(given: Any, unlisted: str, place: Place) -> SourceClass:
    fields = _known(given, _SOURCE, place)
    named = {name: fields[name] for name in ("address", "connection", "view") if name in fields}
    if set(named) not in ({"address"}, {"connection", "view"}) or not all(
        isinstance(name, str) and name for name in named.values()
    ):
        raise _refused(place, "must have an address, or a connection and a view, each as text")
    return SourceClass(
        address=named.get("address"),
        connection=named.get("connection"),
        view=named.get("view"),
        columns=_classes_of(fields.get("columns", {}), (*place, "columns")),
        unlisted=_unlisted_of(fields, unlisted, place),
    )


def _classes_of(given: Any, place: Place) -> Classes:
    if not isinstance(given, Mapping):
        raise _refused(place, "must be a mapping of column names or patterns to roles")
    return tuple((str(name), _class_of(of, (*place, str(name)))) for name, of in given.items())


def _class_of(given: Any, place: Place) -> ColumnClass:
    fields = _known(given if isinstance(given, Mapping) else {"role": given}, _CLASS, place)
    try:
        return ColumnClass(
            role=choice(Role, fields.get("role"), "the role"),
            kind=choice(Kind, fields["kind"], "the kind") if "kind" in fields else None,
            meaning=choice(Meaning, fields["meaning"], "the meaning") if "meaning" in fields else None,
        )
    except ValueError as error:
        raise _refused(place, str(error)) from None


def _unlisted_of(given: Mapping[str, Any], default: str, place: Place) -> str:
    found = given.get("unlisted", default)
    if found not in (AUTHOR, REFUSE):
        raise _refused((*place, "unlisted"), f"must be {REFUSE} or {AUTHOR}")
    return str(found)


def _known(given: Any, known: Sequence[str], place: Place) -> Mapping[str, Any]:
    """Return the fields. Raise if one is unknown."""
    if not isinstance(given, Mapping):
        raise _refused(place, f"must be a mapping with some of {', '.join(known)}")
    for name in given:
        if name not in known:
            raise _refused(
                (*place, str(name)), f"is not known; known are {', '.join(known)}{did_you_mean(name, known)}"
            )
    return given


def _refused(place: Place, text: str) -> ProblemsError:
    return ProblemsError([Problem(text=f"{'.'.join(map(str, place))}: {text}", path=place)])
