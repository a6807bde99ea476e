"""The plugin that registers the pages in Airflow.

Airflow imports this module in every process, task workers included: it must not import the web application.
"""

import importlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

PREFIX = "/privacy"
_LONGEST_NOTE = 1_000  # characters


class LazyASGI:
    """An ASGI application that its factory creates at the first request.

    Args:
        factory: `module:function`; the function creates the application.
    """

    def __init__(self, factory: str) -> None:
        self._factory = factory
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on a request."""
        if self._app is None:
            module, _, name = self._factory.partition(":")
            self._app = getattr(importlib.import_module(module), name)()
        await self._app(scope, receive, send)


def _address(page: str) -> str:
    """Return the address of a page, also if Airflow itself is served below a path."""
    return f"{urlsplit(conf.get('api', 'base_url', fallback='')).path.rstrip('/')}{PREFIX}/{page}"


def _view(name: str, destination: str, page: str, route: str) -> dict[str, Any]:
    return {"name": name, "destination": destination, "href": _address(page), "url_route": route}


def _in_menu(name: str, page: str) -> dict[str, Any]:
    icon = _address(f"static/{page}.svg")
    return _view(name, "nav", page, f"privacy_{page}") | {
        "nav_top_level": True,
        "icon": icon,
        "icon_dark_mode": icon.replace(".svg", "-dark.svg"),
    }


_RUN = "dag_id={DAG_ID}&run_id={RUN_ID}"


class RunNotes:
    """Notes on a run why it released nothing, for Airflow's list of runs. Called by the scheduler."""

    @hookimpl
    def on_dag_run_success(self, dag_run: "DagRun", msg: str) -> None:
        """Note which tasks skipped the rest of the run, and why. A note that a user wrote is kept."""
        from sqlalchemy.orm import object_session

        from airflow_privacy_release.plugin.views.skips import skips

        session = object_session(dag_run)
        if session is None or dag_run.note:
            return
        with session.no_autoflush:
            found = skips(session, dag_run.dag_id, dag_run.run_id)
        if found:
            dag_run.note = "\n".join(f"{task}: {reason}" for task, reason in found)[:_LONGEST_NOTE]


class PrivacyReleasePlugin(AirflowPlugin):
    """Adds releases and privacy budgets to the menu, and a report tab to DAG runs and task instances."""

    name = "privacy_release"
    fastapi_apps = [  # noqa: RUF012  Airflow's own declaration
        {"app": LazyASGI("airflow_privacy_release.plugin.app:create_app"), "url_prefix": PREFIX, "name": name}
    ]
    listeners = [RunNotes()]  # noqa: RUF012  Airflow's own declaration
    external_views = [  # noqa: RUF012  Airflow's own declaration
        _in_menu("Releases", "releases"),
        _in_menu("Budget", "budget"),  # the menu truncates a longer name
        _view("Release report", "dag_run", f"report?{_RUN}", "privacy_report"),
        _view(
            "Release report",
            "task_instance",
            f"report?{_RUN}&task_id={{TASK_ID}}&map_index={{MAP_INDEX}}",
            "privacy_task_report",
        ),
    ]
