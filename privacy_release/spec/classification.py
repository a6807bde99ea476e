"""The classification of a deployment: what columns of its sources are, whatever a release file says of them.

It is a file next to the floor policy, which authors of release files cannot change. A release file may give
a column a stricter role than its class, never a weaker one. The roles are no chain: a postcode as `sensitive`
is linked to people as easily as before, and a diagnosis as `quasi_identifier` loses its diversity. So
`STANDS_FOR` says which roles a class may have.
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
    from privacy_engine.tables.schema import Attribute, DataSchema

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
    """What a column is.

    Attributes:
        role: its class; a release may give it the roles `STANDS_FOR` it.
        kind: that a release must state, where the classification does.
        meaning: likewise.
    """

    role: Role
    kind: Kind | None = None
    meaning: Meaning | None = None


Classes = tuple[tuple[str, ColumnClass], ...]
Place = tuple[str | int, ...]  # where in the file a field is


@dataclass(frozen=True, kw_only=True)
class SourceClass:
    """A source that the classification names.

    Attributes:
        address: pattern of its address; None for a view.
        connection, view: of a database, as a query names it.
        columns: pattern of a name and class, the first that matches counts.
        unlisted: what becomes of columns that no pattern matches.
    """

    address: str | None
    connection: str | None
    view: str | None
    columns: Classes
    unlisted: str


@dataclass(frozen=True, kw_only=True)
class Classification:
    """What the columns of all sources are.

    Attributes:
        path: of its file.
        sha256: of the bytes of the file, as references record it.
        columns: of every source, after those of the source itself.
        made: of columns that a release derives, or makes in a step of its own, by their exact name.
        sources: the first that matches counts.
        unlisted: what becomes of columns that no pattern matches: `refuse` them, or leave their role to the
            `author` of the release.
    """

    path: Path
    sha256: str
    columns: Classes
    made: Mapping[str, ColumnClass]
    sources: tuple[SourceClass, ...]
    unlisted: str

    def of_addresses(self, addresses: Iterable[str]) -> SourceClass | None:
        """The source that all of these addresses are of; None where none of them is of a named one.

        Raises:
            SpecError: if they are of different ones.
        """
        found = {self._of_address(address) for address in addresses}
        if len(found) > 1:
            raise SpecError(
                f"the files of a source must be of one source of the classification {self.path}, got "
                f"{len(found)}; read them as tables of their own"
            )
        return found.pop() if found else None

    def of_query(self, connection: str, sql: str) -> SourceClass:
        """The view that a query reads.

        Raises:
            SpecError: if the query does more than to select columns of a listed view.
        """
        views = {source.view: source for source in self.sources if source.connection == connection}
        if (view := view_of(sql)) in views and view is not None:
            return views[view]
        raise SpecError(
            f"source.sql must select columns of one of the views that the classification {self.path} lists "
            f"for the connection {connection} ({', '.join(map(str, views)) or 'none'}), without other "
            "names, functions, joins or further queries: `SELECT a, b FROM view WHERE ...`; define a view in "
            "the database, and have it listed"
        )

    def require(self, schema: "DataSchema", source: SourceClass | None) -> None:
        """Refuse roles, kinds and meanings that are weaker than the classes of the columns of a source.

        Args:
            schema: of the source, as the release declares it.
            source: what `of_addresses` or `of_query` found.

        Raises:
            SpecError: naming each column, its class, and what may stand for it.
        """
        self._raise([problem for a in schema.attributes for problem in self._problems(a, schema, source)])

    def require_made(
        self, new: "DataSchema", old: "DataSchema", made_of: Mapping[str, Sequence[str]]
    ) -> None:
        """Refuse roles of columns that a step of the release makes of a table whose roles are right.

        Args:
            new: of what the step makes.
            old: of what the step reads.
            made_of: the columns that each new one is computed of; one that is not named may come from any.

        Raises:
            SpecError: naming each column, and what may stand for it.
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
        """The class of a column that is read; None where its role is left to the author."""
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
        """What columns of a source are; without those whose role is left to the author."""
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
            f"{a.name} is made of {', '.join(parents)}, so it must be {_listed(allowed)}, got "
            f"{a.role.value}: correct its role, or have it listed as `made`"
        ]

    def _raise(self, found: Sequence[str]) -> None:
        if found:
            raise SpecError(f"columns contradict the classification {self.path}: {'; '.join(found)}")


def classification() -> Classification | None:
    """The classification of this deployment; None where none is set.

    Raises:
        SpecError: if one is set and cannot be read, so that no release goes on without it.
    """
    chosen = setting(OPTION)
    return None if chosen is None else read_classification(Path(chosen).expanduser())


def classified(
    schema: "DataSchema", *, addresses: Sequence[str] = (), query: tuple[str, str] | None = None
) -> str | None:
    """Hold the columns of a source against the classification of this deployment, before it is read.

    Args:
        schema: of the source, as the release declares it.
        addresses: of its files, or of the folder of a table.
        query: instead of them, the connection and the text of a query.

    Returns:
        The sha256 of the classification, as references record it; None without one.

    Raises:
        SpecError: if a column contradicts its class, or the source is none that may be read.
    """
    found = classification()
    if found is None:
        return None
    found.require(schema, found.of_query(*query) if query else found.of_addresses(addresses))
    return found.sha256


def require_classified(told: Iterable[str | None]) -> None:
    """Refuse a release whose columns were not held against the classification of today.

    Args:
        told: what `classified` gave of each of its sources.

    Raises:
        VerificationError: if there is a classification, and it is another one.
        SpecError: if it cannot be read.
    """
    found = classification()
    if found is not None and set(told) != {found.sha256}:
        raise VerificationError(
            f"the columns of the release were not held against the classification {found.path}, which was "
            "set or changed since; run the release again"
        )


def _contradictions(a: "Attribute", of: ColumnClass, *, as_pseudonym: bool = False) -> list[str]:
    if as_pseudonym and of.role is not Role.IDENTIFIER:
        return [f"{a.name} is classified as {of.role.value}, and only identifiers are released as pseudonyms"]
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
    """What stands in the file of a classification.

    Raises:
        SpecError: if it cannot be read, naming the line and the field.
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
    """The fields, if there is none but the known ones."""
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
