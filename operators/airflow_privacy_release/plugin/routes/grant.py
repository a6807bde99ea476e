"""Granting a privacy budget: a page that explains the limit, and the action itself."""

from dataclasses import dataclass
from typing import Annotated

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.utils.session import create_session
from fastapi import APIRouter, Form, HTTPException, Request, Response, status
from fastapi.responses import RedirectResponse

from airflow_privacy_release.plugin.auth import Rights, holds, logged, name_of, require, token_for
from airflow_privacy_release.plugin.connections import ledgers
from airflow_privacy_release.plugin.responses import page
from airflow_privacy_release.plugin.views import budgets
from privacy_engine.dp.limits import Accounting, Limit, Period
from privacy_engine.dp.loss import Neighbours
from privacy_engine.errors import PrivacyEngineError
from privacy_release.ledger.book import LONGEST_LABEL
from privacy_release.ledger.ledger import BudgetLedger

router = APIRouter()

Text = Annotated[str, Form()]
DAYS = "days"


@dataclass(frozen=True, kw_only=True)
class Typed:
    """A limit as the user typed it.

    Attributes:
        period: `total`, `release` or `days`, with the number of days in `days`.
        accounting: Accounting method, `sum` or `zcdp`.
        sure: Whether the user confirmed it.
    """

    dataset: str
    epsilon: str = ""
    delta: str = "0"
    period: str = DAYS
    days: str = "365"
    neighbours: str = Neighbours.REPLACE_ONE.value
    accounting: str = Accounting.SUM.value
    reason: str = ""
    sure: bool = False

    def limit(self) -> Limit:
        """Parse the limit.

        Raises:
            ValueError: If a field is invalid; the message is for the user.
        """
        try:
            epsilon, delta = float(self.epsilon), float(self.delta or 0)
        except ValueError:
            raise ValueError("Epsilon and delta must be numbers, such as 0.5.") from None
        period = Period.parse(f"{self.days.strip()}d" if self.period == DAYS else self.period)
        return Limit(
            epsilon=epsilon,
            delta=delta,
            neighbours=Neighbours(self.neighbours),
            period=period,
            accounting=Accounting(self.accounting),
        )


@router.get("/grant")
def ask(request: Request, user: GetUserDep, ledger: str, dataset: str = "") -> Response:
    """Show what a limit means and the form that sets it. Without a data set, the user types its name."""
    place = _ledger(user, ledger)
    standing = budgets.standing(place, dataset)
    typed = Typed(dataset=dataset)
    if standing:
        limit = standing[0].limit
        typed = Typed(dataset=dataset, neighbours=limit.neighbours.value, accounting=limit.accounting.value)
    return _form(request, user, ledger, dataset, place, typed, "")


@router.post("/grant")
def do(
    request: Request,
    user: GetUserDep,
    ledger: Text,
    token: Text,
    dataset: Text,
    known: Text = "",
    epsilon: Text = "",
    delta: Text = "",
    period: Text = DAYS,
    days: Text = "",
    neighbours: Text = Neighbours.REPLACE_ONE.value,
    accounting: Text = Accounting.SUM.value,
    reason: Text = "",
    sure: Text = "",
) -> Response:
    """Set the limit, if the form was issued to this user, is confirmed, has a reason and is up to date."""
    place = _ledger(user, ledger)
    if not holds(token, user, _about(ledger, known, place)) or known not in ("", dataset):
        raise HTTPException(
            status.HTTP_403_FORBIDDEN,
            "This form was not made for you, is older than an hour, or something has been spent or granted "
            "since. "
            "Nothing was granted. Open the page again.",
        )
    typed = Typed(
        dataset=dataset.strip(),
        epsilon=epsilon,
        delta=delta,
        period=period,
        days=days,
        neighbours=neighbours,
        accounting=accounting,
        reason=" ".join(reason.split()),
        sure=bool(sure),
    )
    try:
        limit = typed.limit()
        if not typed.reason:
            raise ValueError("Enter a reason. It is kept in the ledger.")
        if not typed.sure:
            raise ValueError("Confirm that you want to set this limit.")
        _record(user, ledger, typed, limit)
        place.grant(typed.dataset, limit, reason=typed.reason, by=name_of(user))
    except PrivacyEngineError:
        raise
    except ValueError as error:
        return _form(request, user, ledger, known, place, typed, str(error))
    return RedirectResponse(f"{request.scope.get('root_path', '')}/budget", status.HTTP_303_SEE_OTHER)


def _ledger(user: BaseUser, name: str) -> BudgetLedger:
    """Return a ledger in which the user may grant budgets.

    Raises:
        HTTPException: 403 if the user may not, 404 if there is none.
    """
    require(
        Rights(user).edits_connection(name),
        "grant budgets: this requires the right to edit the ledger's connection",
    )
    place = ledgers().ledgers.get(name)
    if place is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such ledger.")
    return place


def _form(
    request: Request,
    user: BaseUser,
    ledger: str,
    known: str,
    place: BudgetLedger,
    typed: Typed,
    complaint: str,
) -> Response:
    return page(
        request,
        "grant.html.j2",
        {
            "ledger": ledger,
            "known": known,
            "typed": typed,
            "limits": budgets.in_words(budgets.standing(place, known)),
            "relations": budgets.RELATIONS,
            "accountings": budgets.ACCOUNTINGS,
            "complaint": complaint,
            "longest": LONGEST_LABEL,
            "token": token_for(user, _about(ledger, known, place)),
        },
        status.HTTP_422_UNPROCESSABLE_CONTENT if complaint else status.HTTP_200_OK,
        user=user,
    )


def _about(ledger: str, known: str, place: BudgetLedger) -> list[str]:
    newest = place.history(known, last=1) if known else ()
    return ["grant", ledger, known, newest[-1].hash if newest else ""]


def _record(user: BaseUser, ledger: str, typed: Typed, limit: Limit) -> None:
    """Write who grants what into Airflow's audit log, before it is done."""
    details = {"ledger": ledger, "dataset": typed.dataset, "reason": typed.reason, **limit.to_dict()}
    with create_session() as session:
        session.add(logged(user, "grant", details))
