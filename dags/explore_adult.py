"""The Airflow DAG that measures methods and parameters for the occupations of adults before one is chosen."""

from pathlib import Path

from airflow_privacy_release import explore_dag

explore = explore_dag(
    str(Path(__file__).parents[1] / "include" / "releases" / "adult_occupation.yaml"),
    grid={"methods": ["mondrian", "bottom_up", "ilp_l_diversity", "obpa"], "k": [5, 10, 20]},
    sample=2_000,
    parallel=2,
)
