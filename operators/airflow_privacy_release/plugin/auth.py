"""What each user may see and do on the pages, in terms of Airflow's own rights.

A release belongs to the DAG whose run published it. Users who may read runs of that DAG see the release;
users who may edit the DAG may retract it. A release that no DAG of this Airflow published (it was made on the
command line, or its DAG is gone) belongs to its lake. Reading and editing the lake's connection is then
required, which only operators and administrators may do. Budgets follow the same rule: a data set belongs to
the DAGs whose specifications spend from it, else to the ledger's connection. Users who may edit that
connection may grant budgets.

Forms carry a token that is bound to the user and to the content of the form, so no other site can forge one.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import (
    ConnectionDetails,
    DagAccessEntity,
    DagDetails,
)
from airflow.configuration import conf
from airflow.models import Connection
from airflow.models.dag import DagModel
from airflow.models.log import Log
from airflow.utils.session import create_session
from fastapi import HTTPException, status
from itsdangerous import BadSignature, URLSafeTimedSerializer
from sqlalchemy import select

from airflow_privacy_release.compat import is_assigned

Method = Literal["GET", "PUT"]


class Rights:
    """What one user may do. Each question is answered once per request."""

    def __init__(self, user: BaseUser) -> None:
        self.user = user
        self._answers: dict[tuple[str, ...], bool] = {}
        self._known: dict[str, bool] = {}

    def reads_runs(self, dag_id: str) -> bool:
        """Return whether the user may read runs of a DAG, and so the releases that it published."""
        return self._once(("runs", dag_id), lambda: self._dag(dag_id, "GET", DagAccessEntity.RUN))

    def reads_release(self, dag_id: str | None, lake: str) -> bool:
        """Return whether the user may see a release of that DAG, in the lake of that connection id."""
        if dag_id is not None and self.is_known(dag_id):
            return self.reads_runs(dag_id)
        return self.reads_connection(lake)

    def retracts_release(self, dag_id: str | None, lake: str) -> bool:
        """Return whether the user may see and retract a release that the DAG published."""
        if not self.reads_release(dag_id, lake):
            return False
        if dag_id is not None and self.is_known(dag_id):
            return self._once(("edit", dag_id), lambda: self._dag(dag_id, "PUT", None))
        return self.edits_connection(lake)

    def answers_approval(self, dag_id: str, assigned: Collection[str]) -> bool:
        """Return whether the user may answer a task of the DAG, which may be assigned to some users only."""
        if not self._once(("answer", dag_id), lambda: self._dag(dag_id, "PUT", DagAccessEntity.HITL_DETAIL)):
            return False
        return not assigned or is_assigned(get_auth_manager(), set(assigned), self.user)

    def reads_evidence(self, dag_id: str | None, lake: str) -> bool:
        """Return whether the user may download a release's evidence, as its approvers and lake editors."""
        if not self.reads_release(dag_id, lake):
            return False
        if dag_id is not None and self.is_known(dag_id):
            return self.answers_approval(dag_id, ())
        return self.edits_connection(lake)

    def reads_dataset(self, dag_ids: Iterable[str], ledger: str) -> bool:
        """Return whether the user may see the budget of a data set that these DAGs spend."""
        known = [dag_id for dag_id in dag_ids if self.is_known(dag_id)]
        return any(map(self.reads_runs, known)) if known else self.reads_connection(ledger)

    def reads_connection(self, name: str) -> bool:
        """Return whether the user may read a connection."""
        return self._once(("connection", name), lambda: self._connection(name, "GET"))

    def edits_connection(self, name: str) -> bool:
        """Return whether the user may edit a connection; for a ledger, whether they may grant its budgets."""
        return self._once(("edit connection", name), lambda: self._connection(name, "PUT"))

    def is_known(self, dag_id: str) -> bool:
        """Return whether Airflow has that DAG. No user has rights on a DAG that was deleted."""
        if dag_id not in self._known:
            with create_session() as session:
                found = session.scalar(select(DagModel.dag_id).where(DagModel.dag_id == dag_id))
            self._known[dag_id] = found is not None
        return self._known[dag_id]

    def _dag(self, dag_id: str, method: Method, entity: DagAccessEntity | None) -> bool:
        return get_auth_manager().is_authorized_dag(
            method=method,
            access_entity=entity,
            details=DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id)),
            user=self.user,
        )

    def _connection(self, name: str, method: Method) -> bool:
        return get_auth_manager().is_authorized_connection(
            method=method,
            details=ConnectionDetails(conn_id=name, team_name=Connection.get_team_name(name)),
            user=self.user,
        )

    def _once(self, question: tuple[str, ...], ask: Callable[[], bool]) -> bool:
        if question not in self._answers:
            self._answers[question] = ask()
        return self._answers[question]


def require(allowed: bool, what: str) -> None:
    """Raise unless a request is allowed.

    Raises:
        HTTPException: 403, if it is not allowed.
    """
    if not allowed:
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"You have no right to {what}.")


def name_of(user: Any) -> str:
    """Return the name of a user."""
    return str(user.get_name() or user.get_id())


def logged(user: BaseUser, deed: str, about: Mapping[str, Any], **where: Any) -> Log:
    """Build the audit log entry for a user's action, as Airflow's own interface would write it.

    Args:
        user: User who acts.
        deed: Name of the action, one word.
        about: Details of the action, as plain values.
        where: Further columns of the log entry, such as `dag_id`.
    """
    return Log(
        event=f"privacy_release.{deed}",
        owner=str(user.get_id()),
        owner_display_name=name_of(user),
        extra=json.dumps(about),
        **where,
    )


_SECONDS = 3600


def token_for(user: BaseUser, about: Sequence[str]) -> str:
    """Return a token for a form, valid for an hour."""
    return str(_signer().dumps([user.get_id(), *about]))


def holds(token: str, user: BaseUser, about: Sequence[str]) -> bool:
    """Return whether the token was issued to this user for this content."""
    try:
        return bool(_signer().loads(token, max_age=_SECONDS) == [user.get_id(), *about])
    except BadSignature:
        return False


def _signer() -> URLSafeTimedSerializer:
    # Airflow's own key for signed links; all API servers of an installation share it.
    return URLSafeTimedSerializer(conf.get("api", "secret_key"), salt="privacy-release forms")
