"""References that the steps of a release exchange: addresses, counts and hashes, never records."""

from privacy_release.workarea.references.choices import MeasuredRef, Origin, RecordsFileRef, RecordsRef
from privacy_release.workarea.references.evidence import (
    AlertRef,
    AttackRef,
    ReportRef,
    TrialRef,
    measured_symbols,
    symbols_of,
)
from privacy_release.workarea.references.files import (
    FileRef,
    KeyedRef,
    NumberedRef,
    PeopleRef,
    PersonsRef,
    Stored,
)
from privacy_release.workarea.references.fragments import FragmentRef, FragmentReleaseRef
from privacy_release.workarea.references.reference import (
    NESTED,
    PATHS,
    Reference,
    need,
    paths_inside,
    plain,
    read_as,
)
from privacy_release.workarea.references.source import ShiftRef, SourceRef, TransformRef
from privacy_release.workarea.references.staged import BookingRef, Published, StagedRelease
from privacy_release.workarea.references.table import SUPPRESSED, EngineRef, OutlierRef, Table

__all__ = [
    "NESTED",
    "PATHS",
    "SUPPRESSED",
    "AlertRef",
    "AttackRef",
    "BookingRef",
    "EngineRef",
    "FileRef",
    "FragmentRef",
    "FragmentReleaseRef",
    "KeyedRef",
    "MeasuredRef",
    "NumberedRef",
    "Origin",
    "OutlierRef",
    "PeopleRef",
    "PersonsRef",
    "Published",
    "RecordsFileRef",
    "RecordsRef",
    "Reference",
    "ReportRef",
    "ShiftRef",
    "SourceRef",
    "StagedRelease",
    "Stored",
    "Table",
    "TransformRef",
    "TrialRef",
    "measured_symbols",
    "need",
    "paths_inside",
    "plain",
    "read_as",
    "symbols_of",
]
