"""Granting a privacy budget: a page that explains the limit, and the action itself."""

from typing import Annotated

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.utils.session import create_session
from fastapi import APIRouter, Form, HTTPException, Request, Response, status
from fastapi.responses import RedirectResponse
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

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

DAYS = "days"


class Typed(BaseModel):
    """A limit as the user typed it.

    Attributes:
        ledger: Ledger in which the limit is set.
        known: Data set that the form is issued for. Empty if the user types its name.
        period: `total`, `release` or `days`, with the number of days in `days`.
        accounting: Accounting method, `sum` or `zcdp`.
        reason: Reason in one line.
        sure: Whether the user confirmed it: any text in the form.
    """

    model_config = ConfigDict(frozen=True)

    ledger: str
    known: str = ""
    dataset: Annotated[str, AfterValidator(str.strip)]
    epsilon: str = ""
    delta: str = "0"
    period: str = DAYS
    days: str = "365"
    neighbours: str = Neighbours.REPLACE_ONE.value
    accounting: str = Accounting.SUM.value
    reason: Annotated[str, AfterValidator(lambda text: " ".join(text.split()))] = ""
    sure: Annotated[bool, BeforeValidator(bool)] = False

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


class Submitted(Typed):
    """The form as a browser sends it. A field that it omits is empty.

    Attributes:
        token: Proof that the form was issued to this user.
    """

    token: str
    delta: str = ""
    days: str = ""


@router.get("/grant")
def ask(request: Request, user: GetUserDep, ledger: str, dataset: str = "") -> Response:
    """Show what a limit means and the form that sets it. Without a data set, the user types its name."""
    place = _ledger(user, ledger)
    typed = Typed(ledger=ledger, known=dataset, dataset=dataset)
    if standing := budgets.standing(place, dataset):
        limit = standing[0].limit
        same = {"neighbours": limit.neighbours.value, "accounting": limit.accounting.value}
        typed = typed.model_copy(update=same)
    return _form(request, user, place, typed, "")


@router.post("/grant")
def do(request: Request, user: GetUserDep, typed: Annotated[Submitted, Form()]) -> Response:
    """Set the limit, if the form was issued to this user, is confirmed, has a reason and is up to date."""
    place = _ledger(user, typed.ledger)
    if not holds(typed.token, user, _about(typed, place)) or typed.known not in ("", typed.dataset):
        raise HTTPException(
            status.HTTP_403_FORBIDDEN,
            "This form was not made for you, is older than an hour, or something has been spent or "
            "granted since. Nothing was granted. Open the page again.",
        )
    try:
        limit = typed.limit()
        if not typed.reason:
            raise ValueError("Enter a reason. It is kept in the ledger.")
        if not typed.sure:
            raise ValueError("Confirm that you want to set this limit.")
        _record(user, typed, limit)
        place.grant(typed.dataset, limit, reason=typed.reason, by=name_of(user))
    except PrivacyEngineError:
        raise
    except ValueError as error:
        return _form(request, user, place, typed, str(error))
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


def _form(request: Request, user: BaseUser, place: BudgetLedger, typed: Typed, complaint: str) -> Response:
    return page(
        request,
        "grant.html.j2",
        {
            "ledger": typed.ledger,
            "known": typed.known,
            "typed": typed,
            "limits": budgets.in_words(budgets.standing(place, typed.known)),
            "relations": budgets.RELATIONS,
            "accountings": budgets.ACCOUNTINGS,
            "complaint": complaint,
            "longest": LONGEST_LABEL,
            "token": token_for(user, _about(typed, place)),
        },
        status.HTTP_422_UNPROCESSABLE_CONTENT if complaint else status.HTTP_200_OK,
        user=user,
    )


def _about(typed: Typed, place: BudgetLedger) -> list[str]:
    newest = place.history(typed.known, last=1) if typed.known else ()
    return ["grant", typed.ledger, typed.known, newest[-1].hash if newest else ""]


def _record(user: BaseUser, typed: Typed, limit: Limit) -> None:
    """Write who grants what into Airflow's audit log, before it is done."""
    details = {"ledger": typed.ledger, "dataset": typed.dataset, "reason": typed.reason, **limit.to_dict()}
    with create_session() as session:
        session.add(logged(user, "grant", details))
