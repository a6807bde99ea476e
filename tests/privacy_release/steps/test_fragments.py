"""Releases in fragments: nothing is staged that is not whole, unchanged, and measured together."""

import decimal
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privacy_release
from privacy_engine.errors import CapacityError, InfeasibleError, IntegrityError, SpecError, VerificationError
from privacy_engine.progress import reporting_to
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, TCloseness
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.lake.log import data_files
from privacy_release.lake.store import Lake
from privacy_release.steps.producers import fragment_join, fragments
from privacy_release.steps.producers.fragment_join import join_staged
from privacy_release.steps.publish import publish_staged
from privacy_release.steps.release import make_release
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea import engines
from privacy_release.workarea.area import WorkArea, sha256_file
from privacy_release.workarea.engines import open_engine, read_engine
from privacy_release.workarea.file_sets import files_of, list_of, new_folder, part_name
from privacy_release.workarea.fragment_files import FilesHere
from privacy_release.workarea.parquet import read_private, unchanged_batches
from privacy_release.workarea.references import (
    FileRef,
    FragmentRef,
    FragmentReleaseRef,
    StagedRelease,
    Table,
    plain,
    read_as,
)
from tests.servers.pages import require_closed_page

ROWS = 3_600
QUASI = ["age_from", "age_to", "town"]  # as they are released
MONDRIAN = {"k": 5, "l": 2}
ENGINE = read_engine({"kind": "fragments", "rows": 1_000, "memory": "300MB", "processes": 1})
SCHEMA = DataSchema.from_dict(
    {
        "name": {"role": "identifier", "kind": "categorical"},
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
        "town": {"role": "quasi_identifier", "kind": "categorical", "categories": ["a", "b", "c", "d"]},
        "illness": {"role": "sensitive", "kind": "categorical"},
        "paid": {"role": "insensitive", "kind": "categorical", "nullable": True},
    }
)


def population() -> pd.DataFrame:
    """Invented people; what they paid is known only of the oldest, so in some fragments of no one."""
    rng = np.random.default_rng(11)
    age = rng.integers(18, 90, ROWS)
    paid = [decimal.Decimal(f"{i % 97}.25") if a > 85 else None for i, a in enumerate(age)]
    return pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(ROWS)],
            "age": age,
            "town": rng.choice(["a", "b", "c", "d"], ROWS),
            "illness": rng.choice(["cold", "cough", "flu", "measles"], ROWS, p=[0.4, 0.3, 0.2, 0.1]),
            "paid": pd.Series(paid, dtype=pd.ArrowDtype(pa.decimal128(8, 2))),
        }
    )


@dataclass(frozen=True, kw_only=True)
class Released:
    """Fragments as mapped tasks leave them: cut, each released, and not yet joined."""

    work: WorkArea
    table: Table
    cut: list[FragmentRef]
    parts: list[FragmentReleaseRef]

    def join(self, parts: list[FragmentReleaseRef] | None = None) -> StagedRelease:
        return join_staged(self.parts if parts is None else parts, self.work, title=None, label="release")

    @property
    def staged(self) -> list[str]:
        return sorted(path.name for path in self.work.folder.glob("release*"))


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> tuple[WorkArea, Table]:
    """A work area with the table, cut by no test."""
    root = tmp_path_factory.mktemp("fragments")
    population().to_parquet(root / "people.parquet", index=False)
    with WorkArea(root / "work", "people/run") as work:
        return work, privacy_release.ingest(str(root / "people.parquet"), SCHEMA, work, engine=ENGINE)


@pytest.fixture(scope="module")
def made(ingested: tuple[WorkArea, Table]) -> Released:
    """Fragments of a release by Mondrian, to be copied before they are spoilt."""
    work, table = ingested
    with work:
        cut = cut_up(table, work, method="mondrian", parameters=MONDRIAN, seed=7)
        return Released(work=work, table=table, cut=cut, parts=[fragments.release_one(ref) for ref in cut])


@pytest.fixture
def released(made: Released, tmp_path: Path) -> Iterator[Released]:
    """The same in a separate work area."""
    with WorkArea(tmp_path / "work", "people/run") as work:
        shutil.copytree(made.work.folder, work.folder, dirs_exist_ok=True)
        moved = json.loads(
            json.dumps(plain([made.cut, made.parts])).replace(str(made.work.folder), str(work.folder))
        )
        cut, parts = read_as(list[FragmentRef], moved[0]), read_as(list[FragmentReleaseRef], moved[1])
        yield Released(work=work, table=made.table, cut=cut, parts=parts)


def cut_up(table: Table, work: WorkArea, label: str = "cut", **method: Any) -> list[FragmentRef]:
    with open_engine(ENGINE, work.folder) as engine:
        cut = fragments.cut_table(table, engine, **method)
        return fragments.partition(cut, fragments.keep(cut, work, label), engine)


def rewritten(ref: FragmentReleaseRef, change: Callable[[pa.Table], pa.Table]) -> FragmentReleaseRef:
    """Other released records with their true hash and count: what a faulty worker would have made."""
    path = Path(ref.uri)
    table = change(pq.read_table(path))
    pq.write_table(table, path)
    return replace(ref, sha256=sha256_file(path), rows=len(table))


def retold(ref: FragmentReleaseRef, change: Callable[[dict[str, Any]], None]) -> FragmentReleaseRef:
    """Another account with its true hash."""
    path = Path(ref.account.uri)
    fields = json.loads(path.read_bytes())
    change(fields)
    path.write_text(json.dumps(fields))
    account = FileRef(uri=str(path), sha256=sha256_file(path))
    return replace(ref, account=account)


def without_one_record(table: pa.Table) -> pa.Table:
    """Without a record of a smallest class."""
    frame = table.to_pandas()
    sizes = frame.groupby(QUASI)["illness"].transform("size")
    return table.filter(pa.array(np.arange(len(frame)) != sizes.argmin()))


def with_a_class_of_one(table: pa.Table) -> pa.Table:
    """With one record alone of a smallest class."""
    frame = table.to_pandas()
    sizes = frame.groupby(QUASI)["illness"].transform("size")
    chosen = frame.loc[sizes.argmin(), QUASI]
    others = (frame[QUASI] == chosen).all(axis=1) & (frame.index != sizes.argmin())
    return table.filter(pa.array(~others))


def fewer(fields: dict[str, Any]) -> None:
    fields["figures"]["records"] -= 1
    fields["figures"]["released"] -= 1


def another_claim(fields: dict[str, Any]) -> None:
    fields["claims"]["guarantees"][0]["k"] = 2


def test_a_cut_gives_each_record_to_one_fragment(released: Released) -> None:
    assert len(released.cut) >= 3
    assert [ref.fragment for ref in released.cut] == list(range(len(released.cut)))
    assert sum(ref.rows for ref in released.cut) == ROWS
    assert all(pq.read_metadata(ref.uri).num_rows == ref.rows for ref in released.cut)


def test_a_missing_fragment_stages_nothing(released: Released) -> None:
    with pytest.raises(IntegrityError, match="exactly once, got 1 missing, 0 more than once"):
        released.join(released.parts[:-1])
    assert released.staged == []


def test_a_fragment_that_is_there_twice_stages_nothing(released: Released) -> None:
    with pytest.raises(IntegrityError, match="got 0 missing, 1 more than once"):
        released.join([*released.parts, released.parts[0]])
    assert released.staged == []


def test_no_fragment_at_all_stages_nothing(released: Released) -> None:
    with pytest.raises(IntegrityError, match="got 0 fragments of 0 plans"):
        released.join([])


def test_a_fragment_of_another_plan_stages_nothing(released: Released) -> None:
    other = cut_up(
        released.table, released.work, label="other", method="mondrian", parameters={"k": 9}, seed=7
    )
    parts = [*released.parts[:-1], fragments.release_one(other[-1])]
    with pytest.raises(IntegrityError, match="of 2 plans; cut the table again"):
        released.join(parts)
    assert released.staged == []


def test_a_number_that_the_plan_does_not_know_stages_nothing(released: Released) -> None:
    foreign = replace(released.parts[-1], fragment=77)
    with pytest.raises(IntegrityError, match="1 missing, 0 more than once, 1 of another plan"):
        released.join([*released.parts[:-1], foreign])


@pytest.mark.parametrize("what", ["uri", "account", "plan"])
def test_a_file_that_changed_on_the_way_stages_nothing(what: str, released: Released) -> None:
    last: Any = released.parts[-1]
    path = Path(last.uri if what == "uri" else getattr(last, what).uri)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(IntegrityError, match=r"must have the recorded sha256 [0-9a-f]{64}, got"):
        released.join()
    assert released.staged == []


@pytest.mark.parametrize("what", ["uri", "account", "plan"])
def test_a_file_that_is_gone_stages_nothing(what: str, released: Released) -> None:
    last: Any = released.parts[-1]
    Path(last.uri if what == "uri" else getattr(last, what).uri).unlink()
    with pytest.raises(IntegrityError, match="must be in the work area, got FileNotFoundError"):
        released.join()
    assert released.staged == []


def test_fewer_records_than_the_table_has_stage_nothing(released: Released) -> None:
    short = rewritten(released.parts[0], without_one_record)
    with pytest.raises(
        IntegrityError, match=r"must hold the 3,600 records of the table, got 3,600, of which 3,599"
    ):
        released.join([short, *released.parts[1:]])
    assert released.staged == []


def test_an_account_of_fewer_records_stages_nothing(released: Released) -> None:
    with pytest.raises(IntegrityError, match="must hold the 3,600 records of the table, got 3,599"):
        released.join([retold(released.parts[0], fewer), *released.parts[1:]])


def test_a_count_that_is_not_the_files_stages_nothing(released: Released) -> None:
    first, second, *rest = released.parts
    longer = replace(first, rows=first.rows + 1)
    shorter = replace(second, rows=second.rows - 1)
    with pytest.raises(IntegrityError, match=f"fragment 0 must have {first.rows + 1:,} released records"):
        released.join([longer, shorter, *rest])
    assert released.staged == []


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.rename_columns(["Age", *t.column_names[1:]]),
        lambda t: t.set_column(0, "age", pa.nulls(len(t))),
    ],
    ids=["name", "type"],
)
def test_other_columns_than_the_first_fragments_stage_nothing(change: Any, released: Released) -> None:
    last = rewritten(released.parts[-1], change)
    with pytest.raises(IntegrityError, match=f"same columns and types, fragment {last.fragment} differs"):
        released.join([*released.parts[:-1], last])
    assert released.staged == []


def test_another_claim_than_the_first_fragments_stages_nothing(released: Released) -> None:
    last = retold(released.parts[-1], another_claim)
    with pytest.raises(IntegrityError, match="released alike, but 1 of"):
        released.join([*released.parts[:-1], last])


def test_what_does_not_keep_its_claim_is_not_staged(released: Released) -> None:
    spoilt = rewritten(released.parts[0], with_a_class_of_one)
    taken = released.parts[0].rows - spoilt.rows

    def suppressed(fields: dict[str, Any]) -> None:
        fields["figures"]["released"] -= taken
        fields["figures"]["suppressed"] += taken

    weak = retold(spoilt, suppressed)
    with pytest.raises(
        VerificationError, match=r"must meet what mondrian claims, and miss k_anonymity\(k=5\)"
    ):
        released.join([weak, *released.parts[1:]])
    assert released.staged == []


def test_records_that_changed_since_the_cut_are_not_released(released: Released) -> None:
    ref = released.cut[0]
    frame = pd.read_parquet(ref.uri).iloc[:-1]
    frame.to_parquet(ref.uri, index=False)
    with pytest.raises(IntegrityError, match="must have the recorded sha256"):
        fragments.release_one(ref)
    renamed = replace(ref, sha256=sha256_file(Path(ref.uri)))
    with pytest.raises(IntegrityError, match="fragment 0 must have the"):
        fragments.release_one(renamed)


def test_a_table_that_changed_since_it_was_ingested_is_not_cut(released: Released, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pd.read_parquet(released.table.uri).iloc[:-1].to_parquet(other, index=False)
    table = replace(released.table, uri=str(other))
    with pytest.raises(IntegrityError, match="sha256"):
        cut_up(table, released.work, label="again", method="mondrian", parameters=MONDRIAN, seed=7)
    assert not (released.work.folder / "again.fragments").exists()


def test_releasing_a_fragment_again_gives_the_same_bytes(released: Released) -> None:
    again = fragments.release_one(released.cut[1])
    assert replace(again, seconds=0) == replace(released.parts[1], seconds=0)


def test_the_order_in_which_fragments_come_changes_nothing(released: Released, made: Released) -> None:
    forth, back = released.join(), None
    (released.work.folder / "release.joined.json").unlink()
    shutil.copytree(made.work.folder / "cut.fragments", released.work.folder / "cut.fragments")
    back = released.join(released.parts[::-1])
    assert (forth.sha256, forth.figures) == (back.sha256, back.figures)


def test_where_a_record_stands_does_not_tell_its_fragment(released: Released) -> None:
    staged = pq.read_table(released.join().uri)
    by_value = [(name, "ascending") for name in staged.column_names]
    assert staged.equals(staged.sort_by(by_value))


def test_joining_again_gives_what_was_staged_though_the_fragments_are_gone(released: Released) -> None:
    staged = released.join()
    assert not (released.work.folder / "cut.fragments").exists()
    assert released.join() == staged
    Path(staged.uri).write_bytes(b"changed")
    with pytest.raises(IntegrityError, match="sha256"):
        released.join()


def test_a_joined_release_is_measured_as_a_whole(released: Released) -> None:
    staged = released.join()
    frame = pd.read_parquet(staged.uri)
    classes = EquivalenceClasses.of_columns(frame, QUASI, ["illness"])
    assert len(frame) == staged.rows == ROWS
    assert staged.figures["smallest_class"] == classes.sizes.min() >= 5
    assert staged.figures["classes"] == len(classes)
    assert DistinctLDiversity(l=2).measure(classes) >= 2
    assert sha256_file(Path(staged.uri)) == staged.sha256
    assert staged.engine == ENGINE


def test_the_manifest_and_the_report_tell_of_the_fragments(released: Released) -> None:
    sizes = [ref.rows for ref in released.cut]
    staged = released.join()
    manifest = json.loads(Path(staged.manifest).read_text())["fragments"]
    assert manifest["count"] == len(sizes)
    assert manifest["rows"] == {"most": 1_000, "smallest": min(sizes), "largest": max(sizes)}
    assert manifest["engine"] == "fragments"
    report = Path(staged.report).read_text()
    require_closed_page(report)
    assert f"{len(sizes)} fragments</strong> of {min(sizes):,} to {max(sizes):,} records" in report
    assert "non_uniform_entropy" not in staged.figures
    assert "Loss of each quasi-identifier" in report
    assert "Before and after" in report


def test_columns_keep_the_type_of_the_source_in_every_fragment(released: Released) -> None:
    assert any(pq.read_table(ref.uri)["paid"].null_count == ref.rows for ref in released.parts)
    staged = released.join()
    assert pq.read_schema(staged.uri).field("paid").type == pa.decimal128(8, 2)


def test_working_files_are_for_the_service_user_alone(released: Released) -> None:
    paths = list(released.work.folder.rglob("*"))
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o600}


def test_what_travels_holds_no_value_and_no_count_below_a_fragment(released: Released) -> None:
    text = json.dumps(plain([released.cut, released.parts]))
    assert not any(word in text for word in ("cold", "cough", "measles", "tallies", "person"))


@pytest.mark.quick("here")  # the engine compares its processes
@pytest.mark.parametrize("small", [None, 0], ids=["here", "pool"])
def test_one_process_and_the_process_pool_give_the_bytes_of_mapped_tasks(
    small: int | None,
    ingested: tuple[WorkArea, Table],
    released: Released,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if small is not None:
        monkeypatch.setattr(engines, "SMALL", small)
    work, table = ingested
    messages: list[str] = []
    shares: list[float] = []
    with reporting_to(shares.append):
        pooled = make_release(
            table,
            work,
            method="mondrian",
            parameters=MONDRIAN,
            seed=7,
            label="pooled",
            on_progress=messages.append,
        )
    mapped = released.join()
    assert pooled.sha256 == mapped.sha256
    assert pooled.figures == mapped.figures
    count = len(released.cut)
    assert [step for step in messages if step.startswith("fragment")] == [
        f"fragment {i} of {count}" for i in range(1, count + 1)
    ]
    done = [share for share in shares if share < 0.851]  # then they are joined
    assert done[-count:] == pytest.approx([0.05 + 0.8 * i / count for i in range(1, count + 1)])
    assert not list(work.folder.glob("pooled.fragments*"))


@pytest.mark.quick("bottom_up", "t_closeness")  # other methods are quick in the engine
@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("bottom_up", {"k": 5, "l": 2}),
        ("ilp_l_diversity", {"k": 5, "l": 2}),
        ("obpa", {"k": 10}),
        ("mondrian", {"k": 5, "require": [{"model": "t_closeness", "t": 0.3, "attribute": "illness"}]}),
    ],
    ids=["bottom_up", "ilp_l_diversity", "obpa", "t_closeness"],
)
def test_the_guarantees_of_a_method_hold_on_the_joined_records(
    method: str, parameters: dict[str, Any], ingested: tuple[WorkArea, Table]
) -> None:
    work, table = ingested
    staged = make_release(table, work, method=method, parameters=parameters, seed=3, label=method)
    frame = pd.read_parquet(staged.uri)
    classes = EquivalenceClasses.of_columns(frame, QUASI, ["illness"])
    assert KAnonymity(k=2).measure(classes) >= parameters["k"]
    assert DistinctLDiversity(l=2).measure(classes) >= parameters.get("l", 1)
    if "require" in parameters:
        assert TCloseness(t=0.3).measure(classes) <= 0.3
    assert list(staged.guarantees) == json.loads(Path(staged.manifest).read_text())["guarantees"]


def test_a_release_in_fragments_loses_little_more_than_one_in_a_piece(
    ingested: tuple[WorkArea, Table], released: Released
) -> None:
    (work, table), local = ingested, read_engine("local")
    parts = released.join()
    whole = make_release(
        table, work, label="whole", engine=local, method="mondrian", parameters=MONDRIAN, seed=7
    )
    assert whole.engine is None
    names = [*QUASI, "illness", "paid"]
    assert pq.read_schema(parts.uri).names == pq.read_schema(whole.uri).names == names
    assert parts.figures["gcp"] <= 1.1 * whole.figures["gcp"]
    missing = set(whole.figures) - set(parts.figures)
    assert missing == {"gcp_bound", "non_uniform_entropy", "query_error"}  # of the table in one piece


def test_an_infeasible_guarantee_fails_before_any_fragment_is_released(
    ingested: tuple[WorkArea, Table],
) -> None:
    work, table = ingested
    with pytest.raises(InfeasibleError):
        make_release(table, work, method="mondrian", parameters={"k": 5, "l": 9}, label="infeasible")
    assert not list(work.folder.glob("infeasible*"))


@pytest.mark.parametrize(
    ("method", "parameters", "more", "message"),
    [
        ("rfka", {"k": 5}, {}, "rfka must see the whole table.*engine local"),
        (
            "mondrian",
            {"k": 5},
            {"persons": {"uri": "", "sha256": "", "key": "", "form": ""}},
            "history.keep: false cannot be combined with engine fragments.*engine local",
        ),
        (
            "mondrian",
            {
                "suppression_limit": 0.1,
                "require": [{"model": "t_closeness", "t": 0.2, "attribute": "illness"}],
            },
            {},
            "suppression_limit",
        ),
    ],
    ids=["features", "history", "suppression"],
)
def test_what_needs_the_whole_table_is_refused_with_what_to_do(
    method: str,
    parameters: dict[str, Any],
    more: dict[str, Any],
    message: str,
    ingested: tuple[WorkArea, Table],
) -> None:
    work, table = ingested
    table = Table.from_ref(table.to_ref() | more)
    with pytest.raises(SpecError, match=message):
        make_release(table, work, method=method, parameters=parameters, label="refused")


# Larger releases: a set of files


@pytest.fixture
def in_sets(monkeypatch: pytest.MonkeyPatch) -> int:
    """Releases of more records than this become a set of files."""
    monkeypatch.setattr(fragment_join, "ROWS_OF_A_FILE", 1_000)
    return 1_000


def test_a_set_has_the_records_of_the_one_file_in_the_same_order(
    released: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = released.work.path("copy")
    shutil.copytree(Path(released.parts[0].plan.uri).parent, other)
    plan = Path(released.parts[0].plan.uri).parent
    one = released.join()
    table = read_private(one.uri, one.sha256)
    shutil.copytree(other, plan)
    released.work.path("release.joined.json").unlink()
    monkeypatch.setattr(fragment_join, "ROWS_OF_A_FILE", 1_000)
    several = released.join()
    files = files_of(several.uri, several.sha256)
    assert [pq.read_metadata(file).num_rows for file in files] == [1_000] * 3 + [len(table) - 3_000]
    assert read_private(several.uri, several.sha256).equals(table)
    assert [sha256_file(file) for file in files] == list(files.values())
    assert several.figures == one.figures
    assert several.read_manifest().sha256 == several.sha256 != one.sha256


@pytest.mark.usefixtures("in_sets")
def test_a_set_is_verified_and_published_as_it_is(released: Released, lake: Lake) -> None:
    staged = released.join()
    report = verify_staged(staged, ReleasePolicy(require=(KAnonymity(k=5),)))
    assert (report.passed, report.sha256) == (True, staged.sha256)
    published = publish_staged(staged, report, lake.table("people"), "w1")
    assert published.rows == staged.rows
    stored = {sha256_file(Path(lake.root) / path) for path in data_files(lake.table("people"), None)}
    assert stored == set(files_of(staged.uri, staged.sha256).values())


@pytest.mark.usefixtures("in_sets")
@pytest.mark.parametrize("verified", [False, True])
def test_a_set_of_which_a_file_changed_is_neither_verified_nor_published(
    released: Released, lake: Lake, verified: bool
) -> None:
    staged = released.join()
    policy = ReleasePolicy(require=(KAnonymity(k=5),))
    use: Callable[[], object] = partial(verify_staged, staged, policy)
    if verified:
        use = partial(publish_staged, staged, verify_staged(staged, policy), lake.table("people"), "w1")
    file = list(files_of(staged.uri, staged.sha256))[1]
    pq.write_table(pq.read_table(file).slice(1), file)
    with pytest.raises(IntegrityError, match="it changed between two steps"):
        use()
    assert not Path(lake.table("people")).exists()


@pytest.mark.usefixtures("in_sets")
def test_what_fails_while_a_set_is_written_stages_nothing(
    released: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = FilesHere.write

    def full(files: FilesHere, name: str, data: bytes) -> Any:
        if name == part_name(2):
            raise CapacityError("the disk is full")
        return write(files, name, data)

    monkeypatch.setattr(FilesHere, "write", full)
    with pytest.raises(CapacityError):
        released.join()
    assert released.staged == []
    monkeypatch.setattr(FilesHere, "write", write)
    assert released.join().rows  # nothing of the fragments was lost


@pytest.mark.usefixtures("in_sets")
def test_a_set_that_does_not_keep_the_claims_is_removed(released: Released) -> None:
    parts = [rewritten(released.parts[0], with_a_class_of_one), *released.parts[1:]]
    lost = released.parts[0].rows - parts[0].rows

    def lowered(fields: dict[str, Any]) -> None:
        fields["figures"]["suppressed"] += lost
        fields["figures"]["released"] -= lost

    with pytest.raises(VerificationError, match="k_anonymity"):
        released.join([retold(parts[0], lowered), *parts[1:]])
    assert released.staged == []


@pytest.mark.usefixtures("in_sets")
def test_what_a_killed_attempt_left_of_a_set_is_not_in_it(released: Released) -> None:
    left = new_folder(list_of(released.work.path("release.parquet")))
    (left / part_name(77)).write_bytes(b"of another attempt")
    staged = released.join()
    assert sum(map(len, unchanged_batches(staged.uri, staged.sha256))) == staged.rows
    assert released.join() == staged  # a retry finds what was staged
    next(iter(files_of(staged.uri, staged.sha256))).unlink()
    with pytest.raises(IntegrityError, match="must be in the work area"):
        released.join()
