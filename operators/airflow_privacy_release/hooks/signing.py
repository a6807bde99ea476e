"""The key that signs releases, from an Airflow connection or from the file that the settings name."""

from typing import TYPE_CHECKING

from airflow_privacy_release.hooks.connections import connection_of
from privacy_engine.errors import SecretError

if TYPE_CHECKING:
    from privacy_release.proof.statement import StatementSigner

DEFAULT_SIGNING = "signing_default"


def signer_of(connection_id: str = DEFAULT_SIGNING) -> "StatementSigner | None":
    """Return the signer with the private key that is the password of an Airflow connection, in PEM form.

    Without a connection `signing_default`, the key is read from the file that the option `signing_key` names.
    None if that option is not set: then nothing is signed.

    Raises:
        SecretError: If another named connection does not exist, or the content is not a valid key.
    """
    from privacy_release.proof.keys import NEW_KEY, SigningKey
    from privacy_release.proof.statement import StatementSigner, signer_of_settings

    found = connection_of(connection_id)
    if found is None and connection_id == DEFAULT_SIGNING:
        return signer_of_settings()
    if found is None:
        raise SecretError(
            f"the Airflow connection {connection_id} of the signing key does not exist. Create a key with "
            f"`{NEW_KEY}`, and add it: airflow connections add {connection_id} --conn-type generic "
            '--conn-password "$(cat FILE)"'
        )
    place = f"the password of the Airflow connection {connection_id}"
    return StatementSigner(key=SigningKey.from_pem((found.password or "").encode(), place))
