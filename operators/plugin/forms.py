"""Tokens that tie a form to the user it was shown to and to what it is about: another site has none."""

from collections.abc import Sequence

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.configuration import conf
from itsdangerous import BadSignature, URLSafeTimedSerializer

_SECONDS = 3600


def token_for(user: BaseUser, about: Sequence[str]) -> str:
    """A token for a form; it holds for an hour."""
    return str(_signer().dumps([user.get_id(), *about]))


def holds(token: str, user: BaseUser, about: Sequence[str]) -> bool:
    """Whether the token was made for this user and for this."""
    try:
        return bool(_signer().loads(token, max_age=_SECONDS) == [user.get_id(), *about])
    except BadSignature:
        return False


def _signer() -> URLSafeTimedSerializer:
    # Airflow's own key for signed links; all API servers of an installation share it.
    return URLSafeTimedSerializer(conf.get("api", "secret_key"), salt="privacy-release forms")
