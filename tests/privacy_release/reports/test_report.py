"""The report: whole HTML that loads nothing, tells the figures, and holds nothing of any person."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.measures import risk, utility
from privacy_engine.measures.recoding import Recoding
from privacy_engine.release import Release
from privacy_engine.synthesizers.bayes.privbayes import PrivBayes
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification import known_rows
from privacy_engine.verification.models import (
    MODELS,
    DistinctLDiversity,
    KAnonymity,
    PrivacyModel,
    model_from_dict,
    model_to_dict,
)
from privacy_engine.vocabulary import Intervals, Kind, Role
from privacy_release.reports.release import page_template
from privacy_release.reports.text import FIGURES, LIMITS, MECHANISMS, PROMISES, RISKS, SYNTHETIC_LIMITS, claim
from tests.rendered import render_report
from tests.servers.pages import Page, require_closed_page
from tests.synthetic_tables import SCHEMA, people

CANARIES = ("canarytown", "canarydisease", "canaryname", "canarynote", "73519.25")
TREE = Hierarchy((("clerk", "office", "*"), ("coder", "office", "*"), ("cook", "food", "*")))
QI = Role.QUASI_IDENTIFIER


def source(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "name": [f"canaryname{i}" for i in range(rows)],
            "age": rng.integers(20, 60, rows),
            "job": rng.choice(["clerk", "coder", "cook"], rows),
            "town": rng.choice(["north", "south"], rows),
            "wage": rng.integers(10, 99, rows).astype(float),
            "disease": rng.choice(["flu", "cold", "gout"], rows),
            "note": "plain",
        }
    )
    table.loc[7, ["town", "disease", "note"]] = ["canarytown", "canarydisease", "canarynote"]
    table.loc[7, "wage"] = 73519.25
    return table


def schema(job: str = "job") -> DataSchema:
    return DataSchema(
        (
            Attribute(name="name", role=Role.IDENTIFIER),
            Attribute(name="age", role=QI, kind=Kind.NUMERIC, bounds=(18, 65)),
            Attribute(name=job, role=QI, hierarchy=TREE),
            Attribute(name="town", role=QI),
            Attribute(name="wage", role=QI, kind=Kind.NUMERIC),
            Attribute(name="disease", role=Role.SENSITIVE),
            Attribute(name="note"),
        )
    )


def release_of(
    table: pd.DataFrame,
    shape: DataSchema,
    *,
    guarantees: tuple[PrivacyModel, ...] = (KAnonymity(k=5),),
    size: int = 6,
) -> Release:
    encoded = EncodedTable.encode(table, shape)
    labels = np.arange(len(table)) // size
    labels[-size:] = -1
    recoding = Recoding.of_labels(encoded, labels)
    released, released_schema = recoding.render(Intervals.TEXT)
    return Release(
        table=released,
        schema=released_schema,
        method="mondrian",
        parameters={"k": 5, "suppression_limit": 0.1},
        guarantees=guarantees,
        recoding=recoding,
        notes={"distorted": 0.0},
    )


def report_on(release: Release, **more: object) -> str:
    figures = utility.figures(release.recoding, np.random.default_rng(0)) if release.recoding else {}
    classes = EquivalenceClasses.of_table(release.table, release.schema, np.arange(len(release.table)))
    known = {name: classes.values_left(name) for name in classes.sensitive}
    exposed = risk.figures(classes) | known_rows.figures(known, release.guarantees)
    return render_report(release, figures, exposed, **{"title": "Jobs", "source_rows": 60, **more})  # type: ignore[arg-type]  # a test's keywords


@pytest.fixture(scope="module")
def html() -> str:
    return report_on(release_of(source(), schema()))


def test_every_element_is_closed_where_it_was_opened(html: str) -> None:
    assert html.startswith("<!DOCTYPE html>")
    assert {"html", "head", "body", "main", "table", "svg"} <= {tag for tag, _ in Page(html).tags}


def test_a_page_is_compiled_once_in_a_process() -> None:
    assert page_template("report.html.j2") is page_template("report.html.j2")


def test_the_page_loads_nothing_and_every_plot_is_named(html: str) -> None:
    require_closed_page(html)
    assert "svg" in {tag for tag, _ in Page(html).tags}


def test_no_planted_value_of_the_source_is_in_the_report(html: str) -> None:
    assert [canary for canary in CANARIES if canary in html] == []


def test_no_sensitive_or_unprotected_value_is_in_the_report(html: str) -> None:
    text = Page(html).text
    assert [
        v for v in ("flu", "cold", "gout", "plain", "north", "south") if re.search(rf"\b{v}\b", text)
    ] == []


def test_no_released_cell_of_an_interval_is_in_the_report() -> None:
    release = release_of(source(), schema())
    html = report_on(release)
    assert [cell for name in ("age", "wage") for cell in release.table[name] if cell in html] == []


def test_permuting_the_records_changes_nothing_in_the_report(html: str) -> None:
    shuffled = source().sample(frac=1, random_state=1)
    assert report_on(release_of(shuffled, schema())) == html


def test_small_counts_of_the_source_are_hidden() -> None:
    table = source()
    table["job"] = ["cook"] * 3 + ["clerk"] * 30 + ["coder"] * 27
    page = Page(report_on(release_of(table, schema()), smallest_count=5))
    assert re.search(r"cook hidden / \d+", page.text)
    assert re.search(r"coder hidden / \d+", page.text)  # else the difference to the total gives cook away
    assert re.search(r"clerk 30 / \d+", page.text)


def test_counts_are_hidden_below_the_largest_claimed_k_by_default() -> None:
    html = report_on(release_of(source(), schema(), guarantees=(KAnonymity(k=5), KAnonymity(k=6))))
    assert "rounded to multiples of 6" in Page(html).text


def test_an_attribute_without_a_public_domain_says_why_it_is_not_shown(html: str) -> None:
    assert Page(html).text.count("its schema names no public domain") == 2  # town and wage


def test_a_hostile_column_name_stays_text() -> None:
    hostile = "<script>alert('x')</script>\" onload=\"y"
    html = report_on(
        release_of(source().rename(columns={"job": hostile}), schema(hostile)), title="<b>Jobs</b>"
    )
    page = Page(html)
    assert "script" not in {tag for tag, _ in page.tags}
    assert "b" not in {tag for tag, _ in page.tags}
    assert not any("onload" in a for _, a in page.tags)
    assert hostile in page.text


def test_claims_are_measured_on_the_released_records() -> None:
    good = Page(report_on(release_of(source(), schema()))).text
    assert "k-anonymity at least 5 6 holds" in good
    assert "Not fit for publication" not in good
    bad = Page(
        report_on(release_of(source(), schema(), guarantees=(KAnonymity(k=5), DistinctLDiversity(l=6))))
    ).text
    assert re.search(r"distinct l-diversity at least 6 \d fails", bad)
    assert "Not fit for publication. 1 of the rules below fails" in bad


def test_the_verdict_is_one_sentence_above_all_figures(synthetic: Release) -> None:
    anonymous = Page(report_on(release_of(source(), schema()))).text
    one = "The guarantee of k-anonymity holds on the released records."
    assert anonymous.index(one) < anonymous.index("Records released")
    two = (KAnonymity(k=5), DistinctLDiversity(l=2))
    both = Page(report_on(release_of(source(), schema(), guarantees=two))).text
    assert "k-anonymity and distinct l-diversity hold on the released records." in both
    private = Page(report_on_synthetic(synthetic)).text
    assert "The release is differentially private, with a privacy loss of at most epsilon 1." in private


def test_a_structure_file_claims_invented_records_and_nothing_about_noise_or_people() -> None:
    loss = PrivacyLoss(epsilon=0, neighbours=Neighbours.REPLACE_ONE)
    made = replace(
        release_of(source(), schema(), guarantees=()), recoding=None, loss=loss, method="structure"
    )
    text = Page(report_on(made)).text
    assert (
        "All records are invented: the file shows the columns of a release and nothing about people." in text
    )
    assert "Epsilon 0 no record was read" in text
    for wrong in (
        "noise",
        "times likelier",
        "Columns that go together",
        "Protects against",
        "differentially",
    ):
        assert wrong not in text


def test_the_headline_names_method_parameters_rows_and_facts() -> None:
    text = Page(report_on(release_of(source(), schema()), about={"Release": "2026-11"})).text
    for part in (
        "Jobs",
        "mondrian",
        "Records released 54 of 60 in the source",
        "Suppressed 6 10 %",
        "2026-11",
    ):
        assert part in text
    assert "suppression_limit 0.1" in text


def test_every_figure_and_risk_is_reported_with_its_meaning(html: str) -> None:
    text = Page(html).text
    reported = [about for name, about in FIGURES.items() if name != "gcp_bound"]  # for those who decide alone
    for label, _, meaning in [*reported, *RISKS.values()]:
        assert label in text
        assert meaning in text
    for name, limit in LIMITS:
        assert name in text
        assert limit in text


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_privacy_model_is_explained_with_its_parameters(name: str) -> None:
    numbers = {"k": 5, "l": 3, "c": 2.0, "t": 0.25, "alpha": 0.5, "beta": 1.5, "delta": 1.25}
    fields = {f: v for f, v in numbers.items() if f in MODELS[name].__dataclass_fields__}
    explained = claim(model_to_dict(model_from_dict({"model": name, **fields})))
    assert all(str(value) in explained.rule for value in fields.values())
    assert explained.protects
    assert explained.leaves


def test_only_models_that_exist_are_explained() -> None:
    assert set(PROMISES) == set(MODELS)


BUDGET = {
    "dataset": "people_weekly",
    "limits": [
        {"period": "in all", "limit": 4.0, "spent": 1.5, "left": 2.5},
        {"period": "in any 365 days", "limit": 2.0, "spent": 1.5, "left": 0.5},
    ],
}


@pytest.fixture(scope="module")
def synthetic() -> Release:
    return PrivBayes(epsilon=1.0).release(
        people(400, np.random.default_rng(1)), SCHEMA, np.random.default_rng(2)
    )


def report_on_synthetic(release: Release, **more: object) -> str:
    return render_report(release, {}, {}, **{"title": "People", "source_rows": 400, **more})  # type: ignore[arg-type]  # a test's keywords


def test_a_synthetic_release_tells_its_loss_in_words_and_what_is_not_promised(synthetic: Release) -> None:
    html = report_on_synthetic(synthetic)
    require_closed_page(html)
    text = Page(html).text
    assert "Epsilon 1 privacy loss; delta 0" in text
    assert "at most e^1 = 2.72 times likelier with any one record exchanged for another" in text
    for name, limit in SYNTHETIC_LIMITS:
        assert name in text
        assert limit in text


def test_a_synthetic_release_tells_every_mechanism_that_touched_the_records(synthetic: Release) -> None:
    assert synthetic.model is not None
    text = Page(report_on_synthetic(synthetic)).text
    for spend in synthetic.model.spends:
        sample = "{:,} of {:,}".format(*spend.sample) if spend.sample else "all"
        noise = f"{spend.sensitivity:.4g} {spend.scale:.4g} {spend.epsilon:.4g}"
        assert f"{spend.target} {spend.runs} {sample} {noise}" in text
    assert {spend.mechanism for spend in synthetic.model.spends} <= set(MECHANISMS)


def test_a_synthetic_release_draws_its_network(synthetic: Release) -> None:
    assert synthetic.model is not None
    page = Page(report_on_synthetic(synthetic))
    structure = synthetic.model.structure()
    edges = sum(map(len, structure.values()))
    labels = [a.get("aria-label") or "" for tag, a in page.tags if tag == "svg"]
    assert any(
        f"Network of {len(structure)} attributes with {edges} dependencies" in label for label in labels
    )
    for child, parents in structure.items():
        assert f"{child} {', '.join(parents) if parents else 'none'}" in page.text


def test_a_synthetic_release_tells_what_is_spent_and_left_of_each_limit(synthetic: Release) -> None:
    text = Page(report_on_synthetic(synthetic, budget=BUDGET)).text
    assert "Budget left 0.5 of epsilon 2, in any 365 days" in text  # the limit that is nearest
    assert "4, in all 1.5 / 2.5 2, in any 365 days 1.5 / 0.5" in text
    assert "people_weekly" in text
    assert "privacy budget" not in Page(report_on_synthetic(synthetic)).text


def test_a_synthetic_release_shows_the_marginals_of_the_released_records(synthetic: Release) -> None:
    text = Page(report_on_synthetic(synthetic)).text
    for job, share in synthetic.table["job"].value_counts(normalize=True).items():
        assert f"{job} {100 * share:.1f} %" in text


def test_no_figure_of_the_source_reaches_the_report_of_a_private_release(synthetic: Release) -> None:
    figures, exposed = {"gcp": 0.731, "suppressed": 0.5, "query_error": 0.977}, {"prosecutor_max": 0.613}
    text = render_report(synthetic, figures, exposed, title="People", source_rows=98_765, budget=BUDGET)
    assert text == render_report(synthetic, {}, {}, title="People", source_rows=12, budget=BUDGET)
    assert not re.search(r"person\d", text)  # the names in the source


def test_a_differentially_private_release_tells_its_loss_and_no_exact_number_of_the_source() -> None:
    loss = PrivacyLoss(epsilon=0.5, neighbours=Neighbours.ADD_REMOVE)
    text = Page(report_on(replace(release_of(source(), schema()), loss=loss))).text
    assert "Epsilon 0.5 privacy loss; delta 0" in text
    assert "with or without any one record" in text
    assert "of 60 in the source" not in text
    for section in (
        "Before and after",
        "Loss of each",
        "What the data lost",
        "How exposed",
        "Suppressed",
        "Information lost",
    ):
        assert section not in text


def test_a_release_that_claims_nothing_says_so() -> None:
    release = Release(
        table=pd.DataFrame({"note": ["x"]}),
        schema=DataSchema((Attribute(name="note"),)),
        method="perturbation",
        parameters={},
        guarantees=(),
    )
    assert (
        "claims nothing about this table"
        in Page(render_report(release, {}, {}, title="t", source_rows=1)).text
    )


def test_an_empty_release_still_makes_a_page() -> None:
    release = release_of(source(12), schema(), size=12)
    assert not len(release.table)
    text = Page(report_on(release)).text
    assert "Records released 0" in text
    assert "Not fit for publication" in text
