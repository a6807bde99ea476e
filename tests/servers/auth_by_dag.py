"""The rights of users in tests, which differ by DAG; Airflow imports it by the name of its module."""

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

from tests.servers.airflow_app import OWN_DAG


class AuthByDag(SimpleAuthManager):
    """Airflow's simple auth manager gives a role the same rights on all DAGs; here they differ by DAG.

    The officer may do everything; the stranger and the steward edit one DAG, the visitor reads it.
    """

    def is_authorized_dag(self, *, user: Any, details: Any = None, **question: Any) -> bool:
        """Whether the user may do that to the DAG."""
        own = user.username == "officer" or (details is not None and details.id == OWN_DAG)
        return own and super().is_authorized_dag(user=user, details=details, **question)
