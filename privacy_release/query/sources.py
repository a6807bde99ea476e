"""The releases that a query reads: those of a table at one version, with their guarantees."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyarrow.dataset import get_partition_keys

from privacy_engine.errors import IntegrityError
from privacy_engine.verification.policy import ALL_MODELS
from privacy_engine.vocabulary import PARTITION, counted
from privacy_release.lake.log import Publication, State, newest, open_table, publications
from privacy_release.lake.store import Lake, ReleaseTable, dataset_of, reaching, table_names
from privacy_release.query.rules import QueryError

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset


@dataclass(frozen=True, kw_only=True)
class Source:
    """A release that an answer was made from, and what was proven about it at publication.

    Attributes:
        table: Name of the release table.
        release: ID of the release.
        version: Version of the table that published it.
        published: Time of publication, UTC, ISO 8601.
        rows: Number of rows.
        method: Registry key of the method that made it.
        guarantees: The policy's privacy models as measured on the released bytes, in words.
        loss: Epsilon, delta and neighbour relation of a differentially private release. None otherwise.
        manifest_sha256: SHA-256 of the manifest that proves it.
    """

    table: str
    release: str
    version: int
    published: str
    rows: int
    method: str
    guarantees: tuple[str, ...]
    loss: Mapping[str, Any] | None
    manifest_sha256: str

    def __str__(self) -> str:
        made = f"version {self.version}, {self.published}, {counted(self.rows, 'row')}, {self.method}"
        promised = list(self.guarantees)
        if self.loss is not None:
            promised.insert(0, _loss_words(self.loss))
        return (
            f"{self.table}, release {self.release} ({made}): {'; '.join(promised) or 'no guarantee proven'}"
        )


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What a query sees of a table: releases at one version, whatever is published meanwhile.

    Attributes:
        name: Name of the table.
        version: Version of the table.
        sources: Releases with their guarantees.
        columns: Columns that the query sees, in order.
        files: Files of only these releases, with all columns. The partition of a row is in `release`.
        releases: Release of each partition.
    """

    name: str
    version: int
    sources: tuple[Source, ...]
    columns: tuple[str, ...]
    files: "Dataset"
    releases: Mapping[str, str]

    def paths(self) -> dict[str, str]:
        """The release of each file, by its path below the table's folder."""
        return {
            fragment.path: self.releases[get_partition_keys(fragment.partition_expression)[PARTITION]]
            for fragment in self.files.get_fragments()
        }


# Function that returns whether the user may see a publication of a table.
Sees = Callable[[str, Publication], bool]


def everything(table: str, entry: Publication) -> bool:
    """Allow every publication."""
    return True


def take_snapshot(
    lake: Lake, name: str, release: str | None, *, every_release: bool, sees: Sees = everything
) -> Snapshot:
    """Return the releases of a table that a query sees now.

    Args:
        lake: Lake with the table.
        name: Name of the table, as the user wrote it.
        release: ID of the only release. None: the one that was first published last. A release that was
            published again, such as an old partition with late data, keeps its position.
        every_release: Whether all releases are visible, with the column `release`.
        sees: Function that decides on visible publications.

    Raises:
        QueryError: If there is no such table, or no such release in it that is not retracted.
        PublishError: If the lake cannot be reached.
    """
    try:
        table = lake.table(name)
    except ValueError:  # not a valid name of a table
        raise _missing(lake, name, sees) from None
    delta, version, entries = _consistent(table, sees)
    entries = [entry for entry in entries if sees(name, entry)]
    if not entries:
        raise _missing(lake, name, sees)
    live = [entry for entry in entries if entry.tombstone is None]
    chosen = _chosen(name, entries, live, release, every_release=every_release)
    releases = {entry.partition: entry.release_id for entry in chosen}
    with reaching(lake, f"read table {name}"):
        files = dataset_of(table, delta, (PARTITION, "in", list(releases)))
    columns = list(dict.fromkeys(column for entry in chosen for column in entry.columns))
    return Snapshot(
        name=name,
        version=version,
        sources=tuple(_source(name, entry) for entry in chosen),
        columns=(*([PARTITION] if every_release else []), *columns),
        files=files,
        releases=releases,
    )


def check_rows(lake: Lake, seen: Snapshot) -> None:
    """Raise if a snapshot's files do not have the published number of rows.

    Raises:
        IntegrityError: If there are more or fewer.
        PublishError: If a file cannot be read, such as that of a release that was just retracted.
    """
    with reaching(lake, f"read table {seen.name}"):
        found = seen.files.count_rows()
    recorded = sum(source.rows for source in seen.sources)
    if found != recorded:
        raise IntegrityError(
            f"table {seen.name} must hold {recorded} rows of the requested releases, got {found}: another "
            "tool changed it; publish them again"
        )


def has_moved(lake: Lake, seen: Snapshot) -> bool:
    """Return whether the table has another version by now, so that its files may be gone."""
    table = open_table(lake.table(seen.name))
    return table is None or table.version() != seen.version


def is_retracted(lake: Lake, seen: Snapshot) -> bool:
    """Return whether a release of a snapshot was retracted since."""
    if not has_moved(lake, seen):
        return False
    entries = _consistent(lake.table(seen.name), everything)[2]
    gone = {(entry.release_id, entry.version) for entry in entries if entry.tombstone is not None}
    return any((source.release, source.version) in gone for source in seen.sources)


def _consistent(table: ReleaseTable, sees: Sees) -> tuple[Any, int, list[Publication]]:
    """Return an opened table, its version, and its publications up to exactly that version."""
    delta = open_table(table)
    if delta is None:
        raise _missing(table.lake, table.name, sees)
    return delta, int(delta.version()), list(newest(table, delta.version()))[::-1]


def _missing(lake: Lake, name: str, sees: Sees) -> QueryError:
    """Return the error that there is no such table, with the tables that the user may see."""
    known = [other for other in table_names(lake) if _shows(lake.table(other), sees)]
    return QueryError(f"the lake has no table {name!r}; its tables are: {', '.join(known) or 'none yet'}")


def _shows(table: ReleaseTable, sees: Sees) -> bool:
    """Return whether a table has a publication that may be seen."""
    return sees is everything or any(sees(table.name, entry) for entry in publications(table))


def _chosen(
    name: str,
    entries: Sequence[Publication],
    live: Sequence[Publication],
    release: str | None,
    *,
    every_release: bool,
) -> list[Publication]:
    """Return the current publications of the requested releases, ordered by their first publication."""
    places = {entry.release_id: place for place, entry in reversed(list(enumerate(live)))}
    current = sorted(
        (entry for entry in live if entry.state is State.CURRENT), key=lambda entry: places[entry.release_id]
    )
    damaged = [entry for entry in entries if entry.state is State.DAMAGED]
    if damaged and release in (None, damaged[-1].release_id):
        found = damaged[-1]
        raise QueryError(
            f"release {found.release_id} of table {name}, version {found.version}, has a damaged note "
            f"({found.problem}), so that nothing is proven about it; query another release by its name"
        )
    if release is not None:
        current = [entry for entry in current if entry.release_id == release]
        if not current and (had := [entry for entry in entries if entry.release_id == release]):
            became = "retracted" if had[-1].tombstone else "superseded by a later one"
            raise QueryError(f"the release {release!r} of table {name} was {became}; query another one")
    if not current:
        missing = "a release that is not retracted" if release is None else f"the release {release!r}"
        raise QueryError(f"table {name} must have {missing}; list its releases with `inspect`")
    return current if every_release else current[-1:]


def _source(name: str, entry: Publication) -> Source:
    figures = entry.figures
    return Source(
        table=name,
        release=entry.release_id,
        version=entry.version,
        published=entry.committed,
        rows=entry.rows,
        method=str(figures.get("method", "method unknown")),
        guarantees=_proven(figures),
        loss=figures.get("loss"),
        manifest_sha256=entry.manifest_sha256,
    )


def _proven(figures: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the privacy models among the rules that held. Limits on information loss are no guarantees."""
    return tuple(
        f"{finding['rule']}, measured {finding['measured']:.6g}"
        for finding in figures.get("measured", ())
        if finding["rule"].partition("(")[0] in ALL_MODELS
        and finding["passed"]
        and finding["measured"] is not None
    )


def _loss_words(loss: Mapping[str, Any]) -> str:
    if not loss["epsilon"]:
        return "invented records, epsilon 0"
    delta = f", delta {loss['delta']:g}" if loss["delta"] else ""
    return f"differential privacy, epsilon {loss['epsilon']:g}{delta}, neighbours {loss['neighbours']}"
