"""A PostgreSQL server of the tests' own, from Debian's binaries: own folder, own port, gone at the end."""

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from deploy.local.embedded import HOST, free_port

OWNER = "ledger_owner"
ATTEMPTS = 5
# Another process may take the port between the look and the start. Nothing of a test outlives a power cut.
SETTINGS = f"-c listen_addresses={HOST} -c unix_socket_directories= -c fsync=off -c max_connections=150"


def binaries() -> Path | None:
    """The folder with initdb and pg_ctl: Debian keeps it out of PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else list(Path("/usr/lib/postgresql").glob("*/bin"))
    whole = [folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()]
    return max(whole, key=lambda folder: folder.parent.name) if whole else None


@contextmanager
def server(bin_folder: Path) -> Iterator[URL]:
    """A running server; the address of its first database, with a password."""
    account = _account()
    folder = Path(tempfile.mkdtemp(prefix="privacy-release-postgres-"))
    password = secrets.token_urlsafe(24)
    try:
        (folder / "password").write_text(password)
        if account is not None:
            for path in (folder, folder / "password"):
                shutil.chown(path, account)

        def run(program: str, *arguments: str) -> bool:
            done = subprocess.run(
                [str(bin_folder / program), *arguments],
                user=account,
                group=pwd.getpwnam(account).pw_gid if account else None,
                extra_groups=[] if account else None,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=(folder / "tools.log").open("a"),
                stderr=subprocess.STDOUT,
            )
            return done.returncode == 0

        data = str(folder / "data")
        log = folder / "server.log"
        options = ("-A", "scram-sha-256", "-E", "UTF8", "--no-sync", "--locale=C")
        made = run("initdb", "-D", data, "-U", OWNER, f"--pwfile={folder / 'password'}", *options)
        for _ in range(ATTEMPTS if made else 0):
            port = free_port()
            started = run(
                "pg_ctl",
                "-D",
                data,
                "-w",
                "-t",
                "120",
                "-l",
                str(log),
                "-o",
                f"-p {port} {SETTINGS}",
                "start",
            )
            if started:
                break
        else:
            reported = [path.read_text() for path in (folder / "tools.log", log) if path.exists()]
            raise RuntimeError("PostgreSQL did not start:\n" + "\n".join(reported))
        try:
            yield URL.create(
                "postgresql+psycopg",
                username=OWNER,
                password=password,
                host=HOST,
                port=port,
                database="postgres",
            )
        finally:
            run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def new_schema(url: URL) -> str:
    """The address of a separate empty place, with its password: a user, whose tables go to its schema.

    A database would hold hundreds of files, and take as many milliseconds.
    """
    name = f"ledger_{secrets.token_hex(8)}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text(f"CREATE ROLE {name} LOGIN PASSWORD '{url.password}'"))
        connection.execute(text(f"CREATE SCHEMA AUTHORIZATION {name}"))
    return url.set(username=name).render_as_string(hide_password=False)


def _account() -> str | None:
    """Whom the server runs as: initdb refuses root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "unknown"
