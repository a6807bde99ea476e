"""An auth manager with rights by DAG: Airflow's simple one gives a role the same rights on all of them."""

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

PASSWORDS = {"officer": "of all the people", "steward": "who runs them", "visitor": "who only looks"}
ROLES = "officer:admin,steward:user,visitor:viewer"
OWN_DAG = "people"  # the only one that others than the officer have rights on


class AuthByDag(SimpleAuthManager):
    """The officer may do everything; the steward edits one DAG, the visitor reads it."""

    def is_authorized_dag(self, *, user: Any, details: Any = None, **question: Any) -> bool:
        """Whether the user may do that to the DAG."""
        own = user.username == "officer" or (details is not None and details.id == OWN_DAG)
        return own and super().is_authorized_dag(user=user, details=details, **question)
