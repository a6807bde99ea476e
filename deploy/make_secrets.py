"""Write fresh random secrets for docker-compose.yaml into a file that only this user can read."""

import base64
import os
import secrets
import sys
from pathlib import Path

# As hexadecimal digits they need no quoting, in addresses and in JSON.
RANDOM = (
    "POSTGRES_PASSWORD",
    "AIRFLOW_DB_PASSWORD",
    "LEDGER_DB_PASSWORD",
    "REDIS_PASSWORD",
    "JWT_SECRET",
    "API_SECRET_KEY",
    "ADMIN_PASSWORD",
    "LEDGER_SIGNING_SECRET",
    "MEMBERSHIP_KEY",
    "MEMOISATION_SECRET",
)


def main(path: Path) -> int:
    """Write the file, unless there is one: new secrets do not open what the old ones locked."""
    values = {name: secrets.token_hex(32) for name in RANDOM}
    values["FERNET_KEY"] = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    text = "".join(f"{name}={value}\n" for name, value in values.items())
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        sys.stderr.write(f"{path} exists and is kept: remove it yourself if nothing depends on its secrets\n")
        return 1
    with os.fdopen(file, "w", encoding="ascii") as stream:
        stream.write(text)
    sys.stdout.write(f"{path}: {len(values)} secrets; keep a copy where backups of the data are not\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
