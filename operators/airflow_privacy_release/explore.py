"""Compare methods and parameters before choosing, as a DAG with a mapped task for each choice."""

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
from airflow_privacy_release.pipeline import START
from airflow_privacy_release.step_tasks import REPEATED, prepared
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
    """Build the DAG that measures methods and parameters on records of a specification's source.

    It does the same as `privacy-release explore`, with the same figures for the same seed. The page goes to
    the curator's folder, and nothing else is kept after the run. A choice that fails does not stop the
    others.

    Args:
        file: Path of the specification, absolute or relative to the include folder.
        grid: Methods and parameters to combine, see `ListChoicesOperator`.
        dag_id: DAG id; by default `explore_` and the name of the release.
        sample: Approximate number of records to draw at random; None: 10,000.
        target: Column for a classifier to predict; None: a sensitive column.
        seed: Random seed of the sample and of the methods.
        public: Address of a public table with the source's columns, for differentially private methods.
        book: Whether differentially private methods are explored on the source, with each choice booked in
            the ledger. Without it and without `public`, their records are simulated and the source is not
            read.
        parallel: Number of choices measured at a time; None: as many as Airflow runs. Each choice may use all
            cores of its worker.
        schedule: Schedule of the DAG; None: manual runs only.

    Raises:
        SpecError: If the file is invalid, or this kind of release cannot be explored.
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
        description=f"Compares methods and parameters for {spec.name} before you choose",
        doc_md=f"Measures methods and parameters for `{spec.name}`, each choice in its own mapped task, and "
        "draws risk against loss for the curator only. Nothing is released.",
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
            trigger_rule="none_skipped",  # a choice whose task died must not discard the others
        )
        clean_up_after(drawn)
    return dag
