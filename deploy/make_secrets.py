"""Write new random secrets for docker-compose.yaml into a folder that only this user can enter.

Each secret is a file. Containers read the files as other users, and only root could make those users the
owners. So every user may read the files, and the folder keeps other users of this machine out. Earlier
versions kept the secrets in `.env`; secrets found there move to the files.
"""

import base64
import json
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

# As hexadecimal digits they need no quoting, in addresses and in JSON.
RANDOM = (
    "postgres_password",
    "airflow_db_password",
    "ledger_db_password",
    "redis_password",
    "jwt_secret",
    "api_secret_key",
    "admin_password",
    "ledger_signing_secret",
)
# Connections of Airflow whose password is a secret, and its variable in `.env`.
CONNECTIONS = {"membership_default": "MEMBERSHIP_KEY", "memoisation_default": "MEMOISATION_SECRET"}
FERNET_KEY = "fernet_key"
VARIABLES = {name.upper() for name in (*RANDOM, FERNET_KEY)} | set(CONNECTIONS.values())


def files(earlier: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each file by name.

    Args:
        earlier: Secrets to keep, by their variable in `.env`.
    """

    def value(variable: str) -> str:
        return earlier.get(variable) or secrets.token_hex(32)

    fernet = earlier.get(FERNET_KEY.upper()) or base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    connections = {
        name: {"conn_type": "generic", "password": value(variable)} for name, variable in CONNECTIONS.items()
    }
    found = {name: value(name.upper()) for name in RANDOM}
    return found | {FERNET_KEY: fernet, "worker_connections.json": json.dumps(connections, indent=2)}


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write all of the files or none, and overwrite nothing.

    Raises:
        OSError: If the folder exists and is not empty.
    """
    made = Path(tempfile.mkdtemp(prefix=".secrets-", dir=folder.parent))  # mode 0700
    try:
        for name, text in texts.items():
            (made / name).write_text(text, encoding="utf-8")
            (made / name).chmod(0o444)
        made.rename(folder)
    except OSError:
        shutil.rmtree(made)
        raise


def variable(line: str) -> str:
    """Return the variable's name in a line of an `.env` file."""
    return line.partition("=")[0].strip()


def main(folder: Path, env: Path) -> int:
    """Write the folder, unless it exists: new secrets cannot decrypt data of the old ones."""
    lines = env.read_text(encoding="utf-8").splitlines(keepends=True) if env.exists() else []
    earlier = {variable(line): line.partition("=")[2].strip().strip("'\"") for line in lines}
    moved = {name: value for name, value in earlier.items() if name in VARIABLES and value}
    texts = files(moved)
    try:
        write(folder, texts)
    except OSError:
        if not folder.exists():
            raise
        sys.stderr.write(
            f"{folder} exists and is kept: remove it yourself if nothing depends on its secrets\n"
        )
        return 1
    if moved:
        rest = env.with_name(f"{env.name}.new")
        rest.touch(mode=0o600)
        rest.write_text("".join(line for line in lines if variable(line) not in moved), encoding="utf-8")
        rest.replace(env)
        sys.stdout.write(f"{len(moved)} of them stood in {env}, which has only settings now\n")
    sys.stdout.write(f"{folder}: {len(texts)} secrets; keep a copy where backups of the data are not\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
