"""Operators that train naive Bayes on randomized releases, and compare it with its baseline."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE, lake_of
from airflow_privacy_release.task.errors import guarded
from airflow_privacy_release.task.rendering import read_field
from airflow_privacy_release.task.run import release_id, run_work_area
from privacy_release.workarea.references import Table

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg


class TrainNaiveBayesOperator(BaseOperator):
    """Train PPNB on releases of a table, read only from the lake, and store the model with a short report.

    The model is JSON, `_models/<DAG id>/<release id>.json` below the lake's root, and the report an HTML file
    next to it. Both are computed from what is already published, and are equally public.

    Accuracy on true records is not public. Unless the test table is declared public, for example because it
    is simulated, the accuracy goes only to the curator's folder, not to XComs, logs or the report.

    Args:
        name: Name of the release table.
        target: Class to predict, an attribute of the releases with listed values.
        releases: Ids of releases of different people; None: the newest of those whose asset events triggered
            the run, else the newest release of the table.
        features: Attributes to learn from; None: all others.
        test: Reference to an ingested table of true records; None: no test.
        public_test: Whether anyone may know exact figures of the test table.
        alpha, var_smoothing, shrinkage: Smoothing parameters, see
            `privacy_engine.learning.ppnb.PrivateNaiveBayes`; with `shrinkage=False` as in the paper.
        lake: Airflow connection id of the lake.
    """

    references: ClassVar = {"test": Table}
    template_fields = (
        *("name", "target", "releases", "features", "test", "public_test"),
        *("alpha", "var_smoothing", "shrinkage", "lake"),
    )
    template_fields_renderers = {"test": "json", "releases": "json", "features": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#dfe8f5"

    def __init__(
        self,
        *,
        name: str,
        target: str,
        releases: Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        test: "Table | XComArg | None" = None,
        public_test: bool | str = False,
        alpha: float | str = 1.0,
        var_smoothing: float | str = 1e-9,
        shrinkage: bool | str = True,
        lake: str = DEFAULT_LAKE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.target = target
        self.releases = releases
        self.features = features
        self.test: Any = test  # a reference by the time of execute
        self.public_test = public_test
        self.alpha = alpha
        self.var_smoothing = var_smoothing
        self.shrinkage = shrinkage
        self.lake = lake

    @guarded
    def execute(self, context: "Context") -> dict[str, Any]:
        """Train, test and store the model. Return where it is, and its figures."""
        from privacy_release.steps.learning import (
            evaluate,
            figures_of,
            model_path,
            newest_release,
            train,
            write_model,
            write_private_score,
        )

        lake, run, dag = lake_of(self.lake), release_id(context), context["ti"].dag_id
        public = read_field("learning: public_test", self.public_test, bool)
        chosen = self.releases or [
            triggering_release(context, self.name) or newest_release(lake.table(self.name))
        ]
        trained = train(
            lake.table(self.name),
            list(chosen),
            target=self.target,
            features=self.features,
            alpha=read_field("learning: alpha", self.alpha, float),
            var_smoothing=read_field("learning: var_smoothing", self.var_smoothing, float),
            shrinkage=read_field("learning: shrinkage", self.shrinkage, bool),
        )
        score = evaluate(trained, self.test) if self.test is not None else None
        summary: dict[str, Any] = {
            **write_model(lake, model_path(dag, run), trained, score if public else None),
            "releases": list(trained.releases),
            "rows": len(trained.released),
            **figures_of(trained),
        }
        if score is not None and public:
            summary |= {"accuracy": score.accuracy, "majority": score.majority, "tested": score.rows}
        elif score is not None:
            with run_work_area(context):
                summary["curator"] = write_private_score(score, trained, dag, run)
        self.log.info("trained", **summary)
        return summary


class CompareLearnersOperator(BaseOperator):
    """Compare PPNB with its baseline DTPD on records of two-valued attributes, at an equal probability.

    Part of the records is randomized, PPNB and DTPD learn from their own answers, and both are scored on the
    other records. The answers are drawn from the seed and are discarded: nothing is released. DTPD's answers
    (Du, Zhan 2003), whole records that are reversed or not, have no local differential privacy, so no release
    method makes them.

    The figures are exact figures of the records. Unless the table is declared public, for example because it
    is simulated, they go only to the curator's folder, not to XComs or logs.

    Args:
        table: Reference to an ingested table of true records.
        target: Class to predict, a column with listed values.
        features: Columns to learn from, each with two values at most; derive them in a transform.
        p_0: Probability with which a value (PPNB) or a whole record (DTPD) is kept, in (0, 1) but not 0.5.
        seed: Seed of the split and of the answers.
        test_share: Share of the records that are tested, in (0, 1).
        public: Whether anyone may know exact figures of the table.
    """

    references: ClassVar = {"table": Table}
    template_fields = ("table", "target", "features", "p_0", "seed", "test_share", "public")
    template_fields_renderers = {"table": "json", "features": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#dfe8f5"

    def __init__(
        self,
        *,
        table: "Table | XComArg",
        target: str,
        features: Sequence[str],
        p_0: float | str = 0.8,
        seed: int | str = 1,
        test_share: float | str = 0.25,
        public: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.target = target
        self.features = features
        self.p_0 = p_0
        self.seed = seed
        self.test_share = test_share
        self.public = public

    @guarded
    def execute(self, context: "Context") -> dict[str, Any]:
        """Compare both. Return the figures, or where the curator finds them."""
        from privacy_release.steps.learning import compare, write_private_figures

        public = read_field("learning: public", self.public, bool)
        found = compare(
            self.table,
            target=self.target,
            features=list(self.features),
            p_0=read_field("learning: p_0", self.p_0, float),
            seed=read_field("learning: seed", self.seed, int),
            test_share=read_field("learning: test_share", self.test_share, float),
        )
        summary: dict[str, Any] = asdict(found)
        if not public:
            run, dag = release_id(context), context["ti"].dag_id
            with run_work_area(context):
                summary = {"curator": write_private_figures({"target": self.target, **summary}, dag, run)}
        self.log.info("compared", **summary)
        return summary


def triggering_release(context: "Context", table: str) -> str | None:
    """Return the newest release of a table among the run's triggering asset events; None if there is none."""
    by_asset = context.get("triggering_asset_events") or {}
    events = [event for asset in by_asset for event in by_asset[asset]]
    mine = [event for event in events if (event.extra or {}).get("table") == table]
    mine.sort(key=lambda event: event.timestamp)
    return str(mine[-1].extra["release"]) if mine else None
