"""A schedule: who takes part is counted before anything is measured, and no one takes part once too often."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privacy_release
from privacy_engine.dp.limits import Limit, Period
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import (
    BudgetExceededError,
    InfeasibleError,
    IntegrityError,
    PrivacyEngineError,
    SchemaError,
    SpecError,
    VerificationError,
)
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.budget import participation
from privacy_release.budget.budget import Budget
from privacy_release.budget.participation import Schedule
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.manifest.manifest import Manifest
from privacy_release.reports.registry import Deployment, deployment_record
from privacy_release.sources.identifiers import Disguise
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.parquet import write_private
from privacy_release.workarea.people import Identification, Numbering
from privacy_release.workarea.references import StagedRelease, Table
from tests.meeting import Meeting
from tests.privacy_release.ledger.clocks import Clock, ledger_with
from tests.tables import SPENDING

EXACT = {"allow": "case is part of the number"}
KNOWN = Identification(column="patient", key="k" * 40)
FIELDS: dict[str, Any] = {
    "patient": {"role": "identifier"},
    "town": {"role": "quasi_identifier", "categories": ["north", "south"]},
    "illness": {"role": "sensitive", "categories": ["cold", "flu", "gout"]},
    "person": "patient",
}
POLICY = ReleasePolicy(max_epsilon=0.5)
WEEK = timedelta(days=7)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> BudgetLedger:
    """An epsilon of 2 in any 365 days: one promise of two releases a person at .5, and nothing else."""
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    made = ledger_with(str(tmp_path / "ledger.db"), clock)
    limit = Limit(epsilon=2.0, neighbours=Neighbours.REPLACE_PERSON, period=Period.parse("365d"))
    made.grant("clinic", limit, reason="a test", by="officer")
    return made


def schedule(**more: Any) -> Schedule:
    return Schedule(**{"name": "visits", "releases": 2, "period": "365d"} | more)


class Weeks:
    """Releases of a schedule, one a week."""

    def __init__(self, folder: Path, work: WorkArea, ledger: BudgetLedger, clock: Clock) -> None:
        self.folder, self.work, self.ledger, self.clock, self.made = folder, work, ledger, clock, 0

    def table(self, persons: str, numbering: Identification | None = KNOWN, **fields: Any) -> Table:
        """A delivery of two rows of each person; no two deliveries have the same bytes."""
        self.made += 1
        rng = np.random.default_rng(self.made)
        rows = [p for p in persons for _ in range(2)]
        frame = pd.DataFrame(
            {
                "patient": rows,
                "town": rng.choice(["north", "south"], len(rows)),
                "illness": rng.choice(["cold", "flu", "gout"], len(rows)),
            }
        )
        frame.to_parquet(self.folder / f"{self.made}.parquet", index=False)
        schema = DataSchema.from_dict(FIELDS | fields)
        return privacy_release.ingest(
            str(self.folder / f"{self.made}.parquet"),
            schema,
            self.work,
            label=f"in {self.made}",
            numbering=numbering,
        )

    def release(
        self, table: Table, plan: Schedule | None = None, label: str = "staged", **parameters: Any
    ) -> StagedRelease:
        budget = Budget(dataset="clinic", run="run", ledger=self.ledger, schedule=plan or schedule())
        given = {"epsilon": 0.5, "max_rows": 2} | parameters
        staged = privacy_release.make_release(
            table,
            self.work,
            method="dpsm_bayes",
            parameters=given,
            policy=SPENDING,
            budget=budget,
            label=label,
        )
        self.clock.now += WEEK
        return staged

    def took_part(self, name: str = "visits") -> list[str]:
        """Who took part in each release that was counted, in the order of the releases' keys."""
        numbers = Disguise(KNOWN.numbering, exact=True).of(pd.Series(list("abcdefA")))
        known = dict(zip(map(str, numbers), "abcdefA", strict=True))
        return ["".join(sorted(known[line] for line in lines)) for lines in self.lines(name)]

    def lines(self, name: str = "visits") -> Iterator[list[str]]:
        for path in self.files(name):
            yield path.read_text().split("\n")[1:]

    def files(self, name: str = "visits") -> list[Path]:
        area = WorkArea(self.folder / "curator" / "participation", f"clinic/{name}")
        return sorted(area.folder.glob("*.people"))


@pytest.fixture
def weeks(tmp_path: Path, work: WorkArea, ledger: BudgetLedger, clock: Clock) -> Weeks:
    return Weeks(tmp_path, work, ledger, clock)


def spent(ledger: BudgetLedger) -> float:
    return float(ledger.standing("clinic")[0].spent)


# What is released, booked and counted


def test_a_year_of_weeks_is_paid_by_one_promise_and_no_one_takes_part_more_than_twice(
    weeks: Weeks, ledger: BudgetLedger
) -> None:
    for _ in range(4):
        staged = weeks.release(weeks.table("abc"))
        assert privacy_release.verify_staged(staged, POLICY, ledger).passed
    assert spent(ledger) == 2.0
    assert sorted(weeks.took_part()) == ["", "", "abc", "abc"]
    assert staged.loss == {"epsilon": 0.5, "delta": 0.0, "neighbours": "replace_person"}


def test_who_took_part_long_ago_takes_part_again(weeks: Weeks, clock: Clock) -> None:
    for _ in range(2):
        weeks.release(weeks.table("ab"))
    clock.now += timedelta(days=365) - 2 * WEEK  # a year after the first, which counts no more
    weeks.release(weeks.table("ab"))
    weeks.release(weeks.table("ab"))  # a year after the second
    clock.now -= 2 * WEEK
    assert sorted(weeks.took_part()) == ["ab"] * 4


def test_the_same_bytes_again_are_the_same_release(weeks: Weeks, ledger: BudgetLedger) -> None:
    table = weeks.table("ab")
    first, again = weeks.release(table), weeks.release(table, label="again")
    assert first.sha256 == again.sha256
    assert weeks.took_part() == ["ab"]
    assert len(ledger.history("clinic")) == 3  # grant, reserve, commit


def test_arrivals_take_part_once_for_good(weeks: Weeks, clock: Clock) -> None:
    plan = schedule(releases=1, period="total")
    weeks.release(weeks.table("ab"), plan)
    clock.now += timedelta(days=4_000)
    weeks.release(weeks.table("abc"), plan)
    assert sorted(weeks.took_part()) == ["ab", "c"]


def test_arrivals_that_were_seen_are_refused_where_that_is_asked(weeks: Weeks, ledger: BudgetLedger) -> None:
    plan = schedule(releases=1, period="total", refuse_seen=True)
    weeks.release(weeks.table("ab"), plan)
    with pytest.raises(SchemaError, match="deliver only new people, or set `seen: leave_out`") as error:
        weeks.release(weeks.table("bc"), plan)
    assert not any(number in str(error.value) for number in ("1 ", "2 ", "3 "))
    assert weeks.took_part() == ["ab"]
    assert [entry.event.value for entry in ledger.history("clinic")][-1] == "cancel"


def test_nothing_that_leaves_tells_how_many_rows_or_persons_took_part(
    weeks: Weeks, monkeypatch: pytest.MonkeyPatch
) -> None:
    weeks.release(weeks.table("abc"))
    weeks.release(weeks.table("abc"))
    staged = weeks.release(weeks.table("abcdef"), label="third")
    assert sorted(weeks.took_part()) == ["abc", "abc", "def"]
    manifest = json.loads(Path(staged.manifest).read_text())
    assert manifest["model"]["participants"] == "noisy"
    assert not {"source_rows", "source_persons"} & set(manifest["model"])
    loss = {"epsilon": 2.0, "delta": 0.0, "neighbours": "replace_person"}
    assert manifest["over_time"] == {"releases_of_a_person": 2, "period": "365d", "loss": loss}
    report = Path(staged.report).read_text()
    assert "at most epsilon 2 in any 365 days, however many releases" in report
    assert "left out or added; neither the number of persons nor that of rows is public" in report
    assert "which the promise takes as public" not in report
    said = Deployment(
        curator="clinic",
        curator_type="Nonprofit",
        intended_use="a test",
        region="nowhere",
        authors=("a",),
    )
    entry = deployment_record(
        Manifest.from_dict(manifest), said, table="visits", published="2024-03-01", releases=3
    )
    variant = entry["deployment"]["dp_variant"]
    assert variant["unprotected_quantities"] == "None."
    assert "number_of_privacy_units" not in entry["deployment"]["privacy_loss"]


# What must not let anybody take part once too often


def test_a_process_that_dies_after_it_counted_and_before_it_measured_counts_the_same_in_its_retry(
    weeks: Weeks, ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    weeks.release(weeks.table("a"))
    table = weeks.table("ab")
    with monkeypatch.context() as dying:
        dying.setattr(Synthesizer, "measure_participants", lambda self, rows: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            weeks.release(table)
    weeks.release(weeks.table("ab"))  # a took part twice, b once in what was never measured
    assert sorted(weeks.took_part()) == ["a", "ab", "b"]
    weeks.release(table)  # the retry
    assert sorted(weeks.took_part()) == ["a", "ab", "b"]
    ledger.check("clinic")


def test_two_runs_at_once_never_let_a_person_take_part_in_a_third(weeks: Weeks, work: WorkArea) -> None:
    weeks.release(weeks.table("ab"))
    tables = [weeks.table("ab"), weeks.table("ab")]
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(weeks.release, table, None, f"run {i}") for i, table in enumerate(tables)]
        for run in runs:
            run.result()
    assert sorted(weeks.took_part()) == ["", "ab", "ab"]


def test_another_number_of_releases_is_another_promise_beside_the_first(
    weeks: Weeks, ledger: BudgetLedger
) -> None:
    weeks.release(weeks.table("ab"))
    with pytest.raises(BudgetExceededError, match="under the promise visits, 3 a person of epsilon 3"):
        weeks.release(weeks.table("ab"), schedule(releases=3))
    assert weeks.took_part() == ["ab"]  # nothing was counted for what was not booked
    limit = Limit(epsilon=9.0, neighbours=Neighbours.REPLACE_PERSON, period=Period.parse("365d"))
    ledger.grant("clinic", limit, reason="a test", by="officer")
    for _ in range(3):
        weeks.release(weeks.table("ab"), schedule(releases=3))
    assert sorted(weeks.took_part()) == ["", "ab", "ab", "ab"]  # the first counts for the new promise, too
    assert spent(ledger) == 5.0


@pytest.mark.parametrize("fault", ["missing", "altered", "foreign", "foreign, reserved", "damaged", "stale"])
def test_a_record_of_participants_that_is_not_the_ledgers_stops_the_schedule_with_the_remedy(
    weeks: Weeks, fault: str
) -> None:
    weeks.release(weeks.table("ab"))
    (path,) = weeks.files()
    text = path.read_text()
    match fault:
        case "missing":
            path.unlink()
        case "altered":
            path.write_text(text.rsplit("\n", 1)[0])
        case "foreign":
            path.write_text(text.replace("clinic/visits", "clinic/other"))
        case "foreign, reserved":  # of it, the ledger has no hash
            path.with_name("0" * 64 + ".people").write_text(text.replace("clinic/visits", "clinic/other"))
        case "damaged":
            path.write_text("not json")
        case "stale":  # the folder of before the release was restored
            path.rename(path.with_name("0" * 64 + ".people"))
    with pytest.raises(IntegrityError, match=r"restore the folder .* from its newest backup"):
        weeks.release(weeks.table("ab"))


def test_everything_that_is_derived_from_a_key_is_another_with_another_key() -> None:
    other = Identification(column="patient", key="l" * 40)
    assert KNOWN.key_id != other.key_id
    assert KNOWN.numbering != other.numbering
    assert KNOWN.secret != other.secret
    assert KNOWN.person("a") != other.person("a")
    assert KNOWN.salt("a") != other.salt("a")


def test_another_key_stops_the_schedule(weeks: Weeks) -> None:
    weeks.release(weeks.table("ab"))
    with pytest.raises(
        VerificationError, match="recorded with another key, so no one can be recognised; restore"
    ):
        weeks.release(weeks.table("ab", Identification(column="patient", key="other" * 8)))


def test_a_person_who_took_part_under_another_spelling_is_recognised(weeks: Weeks) -> None:
    for spelling in ("A", "\uff21"):
        weeks.release(weeks.table(spelling + "b"))
    weeks.release(weeks.table("acd"))
    assert sorted(weeks.took_part()) == ["ab", "ab", "cd"]


@pytest.mark.parametrize("names_form", [True, False], ids=["as written", "before there was a form"])
def test_people_who_are_stored_as_written_are_recognised_by_what_is_written_now(
    weeks: Weeks, monkeypatch: pytest.MonkeyPatch, names_form: bool
) -> None:
    def write(path: Path, data: bytes) -> str:
        return write_private(path, data if names_form else data.replace(b', "form": "as written"', b""))

    monkeypatch.setattr(participation, "write_private", write)
    for _ in range(2):
        weeks.release(weeks.table("Ab", patient={"role": "identifier", "exact": EXACT}))
    heads = [json.loads(path.read_text().split("\n")[0]) for path in weeks.files()]
    assert [head.get("form") for head in heads] == (["as written"] * 2 if names_form else [None] * 2)
    weeks.release(weeks.table("Abcd"))
    assert sorted(weeks.took_part()) == ["Ab", "Ab", "cd"]


def test_people_of_normal_forms_are_not_looked_for_among_exact_ones(weeks: Weeks) -> None:
    weeks.release(weeks.table("ab"))
    with pytest.raises(VerificationError, match="restore `exact` as the schema had it"):
        weeks.release(weeks.table("ab", patient={"role": "identifier", "exact": EXACT}))


def test_a_refusal_by_a_noisy_number_is_kept_and_the_same_in_every_retry(
    weeks: Weeks, ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, calls = weeks.table("ab"), []

    def refuse(self: Synthesizer, rows: Any) -> Any:
        calls.append(1)
        raise InfeasibleError("5 rows are too few")

    with monkeypatch.context() as patched:
        patched.setattr(Synthesizer, "measure_participants", refuse)
        with pytest.raises(InfeasibleError, match="5 rows are too few"):
            weeks.release(table)
    with pytest.raises(InfeasibleError, match=r"5 rows are too few \(by a noisy number of records, and so"):
        weeks.release(table)
    assert len(calls) == 1
    assert weeks.took_part() == ["ab"]
    assert spent(ledger) == 2.0


def test_too_little_budget_fails_before_the_table_is_read_or_anybody_counted(weeks: Weeks) -> None:
    table = weeks.table("ab")
    Path(table.uri).unlink()
    with pytest.raises(BudgetExceededError, match=r"cannot pay epsilon 0\.6 under the promise"):
        weeks.release(table, epsilon=0.6)
    assert weeks.files() == []


def refused(weeks: Weeks, table: Table, plan: Schedule | None = None, **given: Any) -> PrivacyEngineError:
    budget = Budget(dataset="clinic", run="run", ledger=weeks.ledger, schedule=plan or schedule())
    with pytest.raises(PrivacyEngineError) as error:
        privacy_release.make_release(table, weeks.work, policy=SPENDING, budget=budget, **given)
    assert [e.event.value for e in weeks.ledger.history("clinic")][-1] in ("grant", "cancel")
    assert weeks.files() == []
    return error.value


def test_what_cannot_be_scheduled_is_refused_before_anybody_is_counted(weeks: Weeks) -> None:
    whole = weeks.table("ab")
    private = {"method": "dpsm_bayes", "parameters": {"epsilon": 0.5, "max_rows": 2}}
    error = refused(weeks, whole, method="mondrian", parameters={"k": 2})
    assert "mondrian makes no differential privacy claim" in str(error)
    rows = weeks.table("ab", None, person={"none": "each row is of another person"})
    error = refused(weeks, rows, method="dpsm_bayes", parameters={"epsilon": 0.5})
    assert isinstance(error, SpecError)
    assert "name the person of each row as `person`" in str(error)
    unknown = weeks.table("ab", None)
    assert "needs persons to have the same number in every run" in str(refused(weeks, unknown, **private))
    engine = read_engine("fragments")
    on_files: Any = replace(whole, engine=engine)
    assert "cannot be combined with engine fragments" in str(refused(weeks, on_files, **private))


def test_a_row_that_names_no_one_is_refused_by_its_number(weeks: Weeks) -> None:
    with pytest.raises(SchemaError, match="patient"):
        weeks.table(["a", "b", None])  # type: ignore[arg-type]  # a letter each, or none


def test_another_run_on_the_same_source_is_the_same_release(weeks: Weeks, ledger: BudgetLedger) -> None:
    first = weeks.table("ab")
    again = privacy_release.ingest(
        str(weeks.folder / "1.parquet"),
        DataSchema.from_dict(FIELDS),
        weeks.work,
        label="again",
        numbering=KNOWN,
    )
    assert first.sha256 == again.sha256


def test_a_release_waits_while_another_one_of_its_schedule_filters_who_takes_part(
    ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting = Meeting(monkeypatch)
    plan, people = schedule(releases=1), np.array([7, 8])
    each = PrivacyLoss(epsilon=0.5, neighbours=Neighbours.REPLACE_PERSON)
    bookings = [ledger.reserve("clinic", key * 64, each, promise=plan.promise(each)) for key in "ab"]

    def second() -> list[bool]:
        with plan.counted(ledger, bookings[1], people, Numbering(key_id="key")) as counted:
            meeting.entered()
            return counted.takes_part.tolist()  # type: ignore[no-any-return]

    with plan.counted(ledger, bookings[0], people, Numbering(key_id="key")) as counted:
        seen, took_part = meeting.second(second)
    assert (seen, counted.takes_part.tolist()) == ("waits", [True, True])
    assert took_part.result() == [False, False]


def test_a_retry_of_a_release_does_not_count_its_own_people_as_earlier_ones(ledger: BudgetLedger) -> None:
    plan, people = schedule(releases=1), np.array([7, 8])
    each = PrivacyLoss(epsilon=0.5, neighbours=Neighbours.REPLACE_PERSON)
    booking = ledger.reserve("clinic", "a" * 64, each, promise=plan.promise(each))
    for _ in range(2):
        with plan.counted(ledger, booking, people, Numbering(key_id="key")) as counted:
            assert counted.takes_part.tolist() == [True, True]
