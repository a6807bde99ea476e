"""Work areas left behind by their run: records of people that no clean-up removed."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import select

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE
from airflow_privacy_release.hooks.work import sweep_areas
from airflow_privacy_release.plugin.auth import Rights
from privacy_engine.errors import PrivacyEngineError
from privacy_release.workarea.presence import Owner
from privacy_release.workarea.sweep import AreaState, SweepRules

_OVER = (DagRunState.SUCCESS, DagRunState.FAILED)


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """A work area whose run has ended.

    Attributes:
        known: Whether the run is in Airflow.
        idle: Time since the last heartbeat of the work area.
    """

    dag_id: str
    run_id: str
    known: bool
    idle: timedelta

    @property
    def since(self) -> str:
        """Return how long the work area has been unused, as text."""
        hours = int(self.idle.total_seconds() // 3600)
        return f"{hours // 24} days" if hours >= 48 else f"{hours} hours" if hours else "less than an hour"


def leftovers(rights: Rights) -> list[Leftover]:
    """Return those of runs that the user may read; none if this process cannot read the folder."""
    found = []
    # The web server may be another user or machine, and the option may be wrong: the tasks report it.
    with suppress(OSError, ValueError, PrivacyEngineError):
        looked = sweep_areas(SweepRules(idle=timedelta(0), is_over=is_over, dry=True))
        for area in looked:
            if area.mark is None or area.mark.owner is not Owner.RUN:
                continue
            if area.state not in (AreaState.ABANDONED, AreaState.UNKNOWN_RUN):
                continue
            dag_id, _, run_id = area.mark.key.partition("/")
            if rights.reads_release(dag_id, DEFAULT_LAKE):
                known = area.state is AreaState.ABANDONED
                found.append(Leftover(dag_id=dag_id, run_id=run_id, known=known, idle=area.idle))
    return found


def is_over(key: str) -> bool | None:
    """Return whether the run of a work area has ended; None if the run is not in Airflow."""
    dag_id, _, run_id = key.partition("/")
    with create_session() as session:
        state = session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    return None if state is None else state in _OVER
