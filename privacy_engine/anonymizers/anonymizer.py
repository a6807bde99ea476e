"""Base of all anonymizers: parameters, guarantees, and the way from a table to a release."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.anonymizers.local_recoding import LocalRecoding
from privacy_engine.anonymizers.trajectories import joined_release, linked_recoding, people_of
from privacy_engine.choice import choice
from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.measures.recoding import Recoding, require_truthful
from privacy_engine.measures.utility import gcp
from privacy_engine.parameters import require_types
from privacy_engine.progress import portion, tracked
from privacy_engine.recoding.grouping.constraints import compares_with_table
from privacy_engine.recoding.grouping.model_rules import compile_constraints, least_size, require_feasible
from privacy_engine.recoding.grouping.people import hold_by_person
from privacy_engine.recoding.grouping.repair import allowed, repair, suppress_where_it_pays
from privacy_engine.recoding.quotas.search import CYCLES
from privacy_engine.recoding.quotas.suppression import of_outliers, of_rare_values
from privacy_engine.release import Release, parameters_of
from privacy_engine.tables.classes import SensitiveValues
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.linked import ReleasedClasses, rows_by_table
from privacy_engine.tables.persons import person_codes
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import (
    DistinctLDiversity,
    KAnonymity,
    PrivacyModel,
    classes_asked,
    holds,
    model_from_dict,
    require_distances,
)
from privacy_engine.vocabulary import Intervals

WORTH = 0.05  # share of the loss that going without outliers must save before the classes are improved
SOON = 0.01  # share of the records up to which a larger set may make the improvement for a smaller one idle
FALL = 0.2  # share of the loss by which its start must then be lower; improvement seldom gains that much
FROM_CUT = 0.15  # share of the loss that improvement may gain where classes were cut again
FROM_CLASSES = 0.005  # and where they are those of the whole table
IN_VAIN = 2  # searches, each without more records, that do not reduce the loss before the search ends


@dataclass(frozen=True, kw_only=True)
class Anonymizer(ABC):
    """Recode the quasi-identifiers of each class of records to a common value.

    Every class has at least k persons, at least l distinct values of each sensitive attribute if l is given,
    and satisfies the models of `require`. Each record counts as a person unless the schema names one.

    Attributes:
        k: Least number of persons in a class, >= 2. Each record counts as a person unless the schema names
            one.
        l: Least number of distinct values of each sensitive attribute in a class; None for no requirement.
        require: Further privacy models, or their dicts, that every class must satisfy.
        suppression_limit: Largest share of records that may be suppressed, 0 .. 1. A record is suppressed
            only if its class saves more than the record loses, so that a larger share never gives more loss.
            If a model compares classes with the table, the search is repeated a few times without the records
            of the rarest sensitive values and without outliers, and the recoding of least loss is released.
            If rows are linked, groups that fail are suppressed, the smallest first, and also rows without a
            match in the trajectories of their class.
        intervals: Form of an interval in the release: `bounds`, two typed columns, both inside; `text`; or
            `midpoint`.
    """

    k: int = 5
    l: int | None = None  # noqa: E741  the field's own symbol
    require: tuple[PrivacyModel, ...] = ()
    suppression_limit: float = 0.0
    intervals: Intervals = Intervals.BOUNDS
    key: ClassVar[str]
    fragmentable: ClassVar[bool] = True  # whether parts of a table, released one by one, are one release

    def __post_init__(self) -> None:
        require_types(self)
        KAnonymity(k=self.k)
        if self.l is not None:
            DistinctLDiversity(l=self.l)
        if not 0 <= self.suppression_limit <= 1:
            raise ValueError(f"suppression_limit must be in [0, 1], got {self.suppression_limit}")
        object.__setattr__(self, "require", tuple(_model(i, m) for i, m in enumerate(self.require)))
        object.__setattr__(self, "intervals", choice(Intervals, self.intervals, "intervals"))

    @property
    def least(self) -> int:
        """Least class size: k, or more if a required model has a larger one."""
        return max(self.k, least_size(self.require))

    @property
    def sensitive_models(self) -> tuple[PrivacyModel, ...]:
        """The requirements on the sensitive values of each class."""
        return (() if self.l is None else (DistinctLDiversity(l=self.l),)) + self.require

    @property
    def keeps_distribution(self) -> bool:
        """Whether the sensitive values are released unchanged, so that they are known in advance."""
        return not self.suppression_limit

    @property
    def suppressible(self) -> float:
        """The share of records that may be suppressed where that pays; 0 where a method chooses itself."""
        return self.suppression_limit

    def guarantees(self, schema: DataSchema) -> tuple[PrivacyModel, ...]:
        """k-anonymity, distinct l-diversity where l is given, and the required models."""
        return (KAnonymity(k=self.k), *self.sensitive_models)

    def privacy_loss(self, schema: DataSchema) -> PrivacyLoss | None:
        """None: no differential privacy is claimed."""
        return None

    @abstractmethod
    def anonymize(self, encoded: EncodedTable, rng: np.random.Generator) -> Recoding:
        """The algorithm: a recoding whose classes meet the guarantees."""

    def local_recoding(self, encoded: EncodedTable) -> LocalRecoding | None:
        """Return how records are grouped before repair and refinement; None if there are no such steps."""
        return None

    def release(
        self,
        table: pd.DataFrame,
        schema: DataSchema,
        rng: np.random.Generator,
        *,
        whole: Mapping[str, SensitiveValues] | None = None,
    ) -> Release:
        """Anonymize a table, or a part of one.

        Args:
            table: Records of the table, or of the part, that is anonymized.
            schema: Schema of the records.
            rng: Method's random choices.
            whole: Sensitive attribute -> its values in the whole table, where these are the records of a part
                of it; models that compare with the table's distribution then compare with the whole one's.

        Raises:
            SchemaError: If the table does not fit the schema.
            InfeasibleError: If the guarantees cannot be met.
        """
        require_truthful(schema, self.intervals)
        if schema.linked and whole is not None:
            raise SchemaError(
                "linked rows must be released in one piece: a part of a table has parts of persons"
            )
        guarantees = self.guarantees(schema)
        require_distances(guarantees, {a.name: a for a in schema.sensitive})
        if schema.linked:
            return self._release_linked(table, schema, rng)
        with portion(0.05):
            encoded = EncodedTable.encode(table, schema, whole)
        _require_persons(encoded.persons, self.least)
        self._require_feasible(encoded)
        with portion(0.45 if self.suppressible else 0.85):
            recoding = self.recoded(encoded, rng)
        if self.suppressible:
            with portion(0.3):
                further = [*self._searched_without(encoded, recoding, rng, guarantees)]
            with portion(0.1):
                recoding = min(map(self._without_outliers, tracked([recoding, *further])), key=gcp)
        classes = recoding.encoded.classes_of(recoding.labels)
        _require_kept(ReleasedClasses(whole=classes, tables={}), guarantees)
        released, released_schema = recoding.render_by_row(self.intervals)
        rows = released.index.to_numpy()
        changed = (recoding.encoded.sensitive != encoded.sensitive).any(axis=0) & (recoding.labels >= 0)
        return Release(
            table=released.reset_index(drop=True),
            schema=released_schema,
            method=self.key,
            parameters=parameters_of(self),
            guarantees=guarantees,
            recoding=recoding,
            rows=rows,
            persons=table[schema.by].to_numpy()[rows] if schema.by else None,
            notes={"distorted": float(changed.mean()), **recoding.notes},
        )

    def _release_linked(self, table: pd.DataFrame, schema: DataSchema, rng: np.random.Generator) -> Release:
        """Rows, of one table or several, by classes of whole trajectories: the algorithm groups persons."""
        if schema.tables:  # each is checked again when it is encoded, except rows of none of them
            schema.check(table)
        tables = rows_by_table(table, schema)
        encoded = [EncodedTable.encode(own.table, own.schema) for own in tables]
        people_of_rows = schema.person_codes(table[schema.by].to_numpy())
        who = [people_of_rows[own.places] for own in tables]
        persons = person_codes(np.concatenate([w[e.rows] for w, e in zip(who, encoded, strict=True)]))
        ends = np.cumsum([len(e) for e in encoded])[:-1]
        encoded = [replace(e, persons=p) for e, p in zip(encoded, np.split(persons, ends), strict=True)]
        _require_persons(persons, self.least)
        guarantees = self.guarantees(schema)
        people = people_of(encoded, self.sensitive_models, rng)
        self._require_feasible(people.table)
        plain = replace(self, suppression_limit=0.0)  # it would suppress persons, not records
        with portion(0.6):
            grouped = plain.anonymize(people.table, rng)
        with portion(0.2):
            recodings = linked_recoding(encoded, people, grouped, guarantees, self.suppression_limit)
        rendered = [recoding.render_by_row(self.intervals) for recoding in recodings]
        places = [own.places[t.index.to_numpy()] for own, (t, _) in zip(tables, rendered, strict=True)]
        released, released_schema, rows = joined_release(
            schema, [own.name for own in tables], rendered, places, people_of_rows, rng
        )
        classes = ReleasedClasses.of_table(released, released_schema)
        _require_kept(classes, guarantees)
        return Release(
            table=released,
            schema=released_schema,
            method=self.key,
            parameters=parameters_of(self),
            guarantees=guarantees,
            recoding=None if schema.tables else recodings[0],
            recodings={o.name: r for o, r in zip(tables, recodings, strict=True)} if schema.tables else {},
            rows=rows,
            persons=table[schema.by].to_numpy()[rows],
            notes={"distorted": 0.0, **grouped.notes},
            trajectories=len(classes.whole),
        )

    def _require_feasible(self, encoded: EncodedTable) -> None:
        """Raise if a table is not allowed even as one class."""
        constraints = compile_constraints(self.sensitive_models, encoded)
        require_feasible(len(encoded), self.least, encoded.sensitive, constraints, encoded.sensitive_names)

    def recoded(self, encoded: EncodedTable, rng: np.random.Generator) -> Recoding:
        """A recoding whose classes hold for persons, also where the algorithm counts rows."""
        with portion(1.0 if encoded.persons is None else 0.8):
            recoding = self.anonymize(encoded, rng)
        if encoded.persons is None:
            return recoding
        encoded = recoding.encoded
        guarantees = self.guarantees(encoded.schema)
        labels = hold_by_person(encoded, recoding.labels, encoded.geometry(), guarantees)
        return Recoding.of_labels(encoded, labels, recoding.notes)

    def _searched_without(
        self,
        encoded: EncodedTable,
        whole: Recoding,
        rng: np.random.Generator,
        guarantees: tuple[PrivacyModel, ...],
    ) -> Iterator[Recoding]:
        """Recodings of the table in which records are suppressed, each of less loss than those before.

        Which are tried, with which random choices and for how long, does not depend on the limit, only where
        it ends: so a larger limit never gives a larger loss.
        """
        constraints = compile_constraints(self.sensitive_models, encoded)
        if not compares_with_table(constraints):
            return
        room = allowed(self.suppressible, len(encoded))
        rare = of_rare_values(encoded.sensitive, constraints)
        outlying = of_outliers(whole.encoded.codes, whole.labels, whole.encoded.geometry())
        starts: dict[int, Recoding | None] = {}  # by the records that they go without

        def start(gone: npt.NDArray[np.int64]) -> Recoding | None:
            if len(gone) not in starts:
                starts[len(gone)] = self._cut_without(whole, gone, guarantees)
            return starts[len(gone)]

        searches: tuple[Callable[..., Recoding | None], ...] = (
            partial(self._without_values, start),
            self._without_far,
        )
        for ladder, search, stream in tracked([*zip((rare, outlying), searches, rng.spawn(2), strict=True)]):
            least, in_vain, before = gcp(whole), 0, 0
            for gone, larger in itertools.pairwise(itertools.chain(ladder, (None,))):
                if gone is None or len(gone) > room:
                    break
                with portion((len(gone) - before) / max(room, 1)):
                    found = search(encoded, whole, gone, larger, stream.spawn(1)[0], guarantees, least)
                before = len(gone)
                if found is not None and gcp(found) < least:
                    least, in_vain = gcp(found), 0
                    if found.suppressed <= room:
                        yield found
                elif (in_vain := in_vain + 1) == IN_VAIN:
                    break

    def _without_values(
        self,
        start: Callable[[npt.NDArray[np.int64]], Recoding | None],
        encoded: EncodedTable,
        whole: Recoding,
        gone: npt.NDArray[np.int64],
        larger: npt.NDArray[np.int64] | None,
        rng: np.random.Generator,
        guarantees: tuple[PrivacyModel, ...],
        least: float,
    ) -> Recoding | None:
        """The recoding without all records of rare values, which lets classes be far smaller.

        The classes are cut again, or are those of the whole table where these lose less. They are improved
        only where that promises to go below the least loss so far, and the next larger set of records, if it
        is small, does not begin with far less loss.
        """
        recode = self.local_recoding(whole.encoded)
        if recode is None or not recode.improves(whole.encoded):
            return self._searched_whole(encoded, whole, gone, rng, guarantees)
        found, gain, cycles = start(gone), FROM_CUT, CYCLES
        carried = self._carried_over(recode, whole, gone)
        if found is None or gcp(carried) < gcp(found):
            found = _if_kept(whole, carried.labels, whole.notes, guarantees)
            gain, cycles = FROM_CLASSES, 1  # they were improved before
        if found is None or gcp(found) * (1.0 - gain) >= least:
            return found
        if larger is not None and len(larger) <= SOON * len(encoded):
            ahead = start(larger)
            if ahead is not None and gcp(ahead) < (1.0 - FALL) * gcp(found):
                return found
        labels = found.labels.copy()
        kept = np.flatnonzero(labels >= 0)
        labels[kept] = recode.improved(whole.encoded.take(kept), labels[kept], rng, cycles)
        return _if_kept(whole, labels, whole.notes, guarantees)

    def _cut_without(
        self, whole: Recoding, gone: npt.NDArray[np.int64], guarantees: tuple[PrivacyModel, ...]
    ) -> Recoding | None:
        """Return the recoding by cuts of the other records; None if none meets the guarantees."""
        kept = np.setdiff1d(np.arange(len(whole.labels)), gone)
        part = whole.encoded.take(kept)
        recode = self.local_recoding(part)
        try:
            self._require_feasible(part)
        except InfeasibleError:
            return None
        if recode is None:
            return None
        labels = np.full(len(whole.labels), -1, dtype=np.int64)
        labels[kept] = recode.cut(part)
        return _if_kept(whole, labels, whole.notes, guarantees)

    def _carried_over(self, recode: LocalRecoding, whole: Recoding, gone: npt.NDArray[np.int64]) -> Recoding:
        """The recoding by the classes that there are, without some records; what misses a model is merged."""
        labels = whole.labels.copy()
        labels[gone] = -1
        labels = repair(whole.encoded, labels, recode.geometry, recode.models, self.least)
        return Recoding.of_labels(whole.encoded, labels, whole.notes)

    def _without_far(
        self,
        encoded: EncodedTable,
        whole: Recoding,
        gone: npt.NDArray[np.int64],
        larger: npt.NDArray[np.int64] | None,
        rng: np.random.Generator,
        guarantees: tuple[PrivacyModel, ...],
        least: float,
    ) -> Recoding | None:
        """Return the recoding without outliers: classes are unchanged, except those that now miss a model.

        They are improved if that by itself lowers the loss by `WORTH`.
        """
        recode = self.local_recoding(whole.encoded)
        if recode is None or not recode.refine or encoded.persons is not None:
            return self._searched_whole(encoded, whole, gone, rng, guarantees)
        carried = self._carried_over(recode, whole, gone)
        labels = carried.labels.copy()
        kept = labels >= 0
        if gcp(carried) < (1.0 - WORTH) * least:
            labels[kept] = recode.improved(whole.encoded.take(np.flatnonzero(kept)), labels[kept], rng)
        return _if_kept(whole, labels, whole.notes, guarantees)

    def _searched_whole(
        self,
        encoded: EncodedTable,
        whole: Recoding,
        gone: npt.NDArray[np.int64],
        rng: np.random.Generator,
        guarantees: tuple[PrivacyModel, ...],
    ) -> Recoding | None:
        """Return the method's recoding of the other records; None if there is none, or it changes values."""
        kept = np.setdiff1d(np.arange(len(encoded)), gone)
        part = encoded.take(kept)
        try:
            _require_persons(part.persons, self.least)
            self._require_feasible(part)
            made = self.recoded(part, rng)
        except InfeasibleError:
            return None
        labels = np.full(len(encoded), -1, dtype=np.int64)
        labels[kept] = made.labels
        same = np.array_equal(made.encoded.codes, whole.encoded.codes[kept]) and np.array_equal(
            made.encoded.sensitive, whole.encoded.sensitive[:, kept]
        )
        return _if_kept(whole, labels, made.notes, guarantees) if same else None

    def _without_outliers(self, recoding: Recoding) -> Recoding:
        """The recoding without the records whose suppression pays."""
        labels = suppress_where_it_pays(
            recoding.encoded, recoding.labels, self.least, self.sensitive_models, self.suppressible
        )
        return Recoding.of_labels(recoding.encoded, labels, recoding.notes)


def _if_kept(
    whole: Recoding,
    labels: npt.NDArray[np.int64],
    notes: Mapping[str, float],
    guarantees: tuple[PrivacyModel, ...],
) -> Recoding | None:
    """Return the recoding of the table by other classes; None if they miss the guarantees."""
    classes = whole.encoded.classes_of(labels)
    if not all(holds(model, classes) for model in guarantees):
        return None
    return Recoding.of_labels(whole.encoded, labels, notes)


def _model(place: int, given: Any) -> PrivacyModel:
    """A required model, or the one of its dict."""
    try:
        model: PrivacyModel = model_from_dict(given) if isinstance(given, Mapping) else given
    except ValueError as error:
        raise ValueError(f"require[{place}]: {error}") from None
    return model


def _require_persons(persons: npt.NDArray[np.int64] | None, least: int) -> None:
    """Refuse a table of fewer persons than a class needs."""
    if persons is not None and (count := len(np.unique(persons))) < least:
        raise InfeasibleError(
            f"{count} persons cannot be {least}-anonymous, in however many rows; lower k or bring more "
            "persons"
        )


def _require_kept(released: ReleasedClasses, guarantees: tuple[PrivacyModel, ...]) -> None:
    """Never release less than was claimed, whatever the algorithm did."""
    for model in guarantees:
        for classes in classes_asked(model, released):
            if not holds(model, classes):
                count = int(model.violations(classes).sum()) if len(classes) else 0
                raise InfeasibleError(
                    f"{model.name} cannot be met: {count} of {len(classes)} classes miss it; weaken the "
                    "model, raise suppression_limit, or bring more records"
                )
