"""The page of the privacy budgets."""

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Request, Response

from airflow_privacy_release.plugin.auth import Rights
from airflow_privacy_release.plugin.connections import ledgers
from airflow_privacy_release.plugin.responses import page
from airflow_privacy_release.plugin.views import budgets

router = APIRouter()


@router.get("/budget")
def show_budgets(request: Request, user: GetUserDep) -> Response:
    """Show what is spent and left of each budget that the user may see, with its history."""
    places, rights = ledgers(), Rights(user)
    found, problems = budgets.all_budgets(places, rights)
    context = {"budgets": found, "problems": problems, "granting": budgets.granting(places, rights)}
    return page(request, "budget.html.j2", context, user=user)
