"""Choosing a method by looking, as a DAG: each choice is a mapped task, so that workers share the work."""

from collections.abc import Mapping, Sequence

from airflow.sdk import DAG

from airflow_privacy_release.operators.compare import (
    DrawChoicesOperator,
    ListChoicesOperator,
    MeasureChoiceOperator,
    SampleRecordsOperator,
)
from airflow_privacy_release.operators.ingest import IngestParquetOperator
from airflow_privacy_release.operators.publish import clean_up_after
from airflow_privacy_release.pipeline import REPEATED, START, prepared
from privacy_release.explore.choices import Grid
from privacy_release.explore.origins import budget_named, origin_of
from privacy_release.spec.files import include_folder
from privacy_release.spec.model import load_spec


def explore_dag(
    file: str,
    *,
    grid: Mapping[str, Sequence[str | float]] | None = None,
    dag_id: str | None = None,
    sample: int | None = None,
    target: str | None = None,
    seed: int = 0,
    public: str | None = None,
    book: bool = False,
    parallel: int | None = None,
    schedule: str | None = None,
) -> DAG:
    """The DAG that measures methods and parameters on records of a specification's source.

    It does what `privacy-release explore` does, with the same figures for the same seed. The page goes to the
    curator's folder, and nothing else outlives the run. A choice that cannot be made stops no other.

    Args:
        file: of the specification, absolute or relative to the include folder.
        grid: what the choices are made of, see `ListChoicesOperator`.
        dag_id: by default the name of the release after `explore_`.
        sample: about so many records, drawn at random; None: 10,000.
        target: column that a classifier predicts; None: a sensitive one.
        seed: of the sample and of the methods.
        public: address of a public table in the source's form, for differentially private methods.
        book: whether these are explored on the source, and the ledger books each choice. Without it and
            `public` their records are simulated, and the source is not read.
        parallel: how many choices are measured at a time; None: as many as Airflow runs. Each may take all
            cores of its worker.
        schedule: of the DAG.

    Raises:
        SpecError: if the file is wrong, or the release is not explored so.
    """
    path = include_folder() / file
    spec = load_spec(path)
    origin = origin_of(spec, Grid.of(grid), public=public is not None, book=book)
    paid = {}
    if book:
        paid = dict(zip(("budget", "ledger"), budget_named(spec, sample), strict=True))
        paid["policy"] = spec.policy
    with DAG(
        dag_id=dag_id or f"explore_{spec.name}",
        description=f"Methods and parameters for {spec.name}, measured before one is chosen",
        doc_md=f"Measures methods and parameters for `{spec.name}`, each choice by a task of its own, and "
        "draws risk against loss for the curator alone. Nothing is released.",
        schedule=schedule,
        start_date=START,
        catchup=False,
        max_active_runs=1,
        tags=["explore", *spec.tags],
        default_args={"owner": "privacy-release"},
    ) as dag:
        choices = ListChoicesOperator(task_id="choices", spec=str(path), grid=grid, book=book)
        table = None
        if public is not None:
            raw = IngestParquetOperator(
                task_id="ingest",
                uri=public,
                schema=spec.schema_fields,
                columns=spec.only_source.columns,
                nulls=spec.only_source.nulls,
                max_expansion=spec.only_source.max_expansion,
            )
            choices >> raw
            table = raw.output
        elif origin != "simulated":
            table = prepared(spec, choices)
        records = SampleRecordsOperator(
            task_id="records",
            spec=str(path),
            choices=choices.output,
            table=table,
            sample=sample,
            target=target,
            seed=seed,
            public=public is not None,
            book=book,
        )
        measured = MeasureChoiceOperator.partial(
            task_id="measure",
            records=records.output,
            map_index_template="{{ task.choice['name'] }}",
            max_active_tis_per_dagrun=parallel,
            **paid,
            **REPEATED,
        ).expand(choice=choices.output)
        drawn = DrawChoicesOperator(
            task_id="draw",
            spec=str(path),
            choices=choices.output,
            records=records.output,
            measured=measured.output,
            trigger_rule="none_skipped",  # a choice whose task died does not lose the others
        )
        clean_up_after(drawn)
    return dag
