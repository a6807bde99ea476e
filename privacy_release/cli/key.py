"""`privacy-release key`: make the keys that sign releases, print their public halves, show them in a lake."""

import argparse
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from privacy_release.cli.arguments import default_lake, lake_at
from privacy_release.config.settings import VARIABLES


def add_key_commands(commands: Any) -> None:
    """Declare `new`, `public` and `publish`."""
    new = _command(commands, "new", "make a key, in a file that only you can read", _new)
    new.epilog = (
        f"The command line signs with the key in the file named by {VARIABLES['signing_key']}; tasks of "
        "Airflow with the password of the connection signing_default, which is the text of such a file."
    )
    new.add_argument(
        "file", type=Path, metavar="FILE", help="file to create; an existing one is never overwritten"
    )

    public = _command(commands, "public", "print public keys, for people who check releases", _public)
    public.add_argument("files", nargs="+", type=Path, metavar="FILE", help="private keys of `key new`")

    publish = _command(
        commands, "publish", "show a public key in a lake, with its period of validity", _publish
    )
    publish.epilog = (
        "Replaces what the lake already shows of the key. People who trust a key that was replaced trust its "
        "successor, too. From the successor's first signature on, the older key cannot sign releases."
    )
    publish.add_argument("file", type=Path, metavar="FILE", help="private key, which signs the entry")
    publish.add_argument("--lake", metavar="DIR", help="folder or address; default as for `run`")
    publish.add_argument(
        "--since", type=date.fromisoformat, metavar="DATE", help="first day of its validity, UTC"
    )
    publish.add_argument(
        "--until", type=date.fromisoformat, metavar="DATE", help="last day of its validity, UTC"
    )
    publish.add_argument(
        "--replaces", type=Path, metavar="FILE", help="older private key, which also signs this one"
    )


def _command(commands: Any, name: str, text: str, function: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}."
    )
    parser.set_defaults(command=function)
    return parser


def _new(arguments: argparse.Namespace) -> int:
    from privacy_release.proof.keys import write_new_key

    key = write_new_key(arguments.file)
    print(f"{arguments.file} contains a new key, id {key.public.id}; protect it like a password")
    return 0


def _public(arguments: argparse.Namespace) -> int:
    from privacy_release.proof.keys import signing_key_in

    for key in [signing_key_in(file).public for file in arguments.files]:
        print(f"# key {key.id}\n{key.pem()}", end="")
    return 0


def _publish(arguments: argparse.Namespace) -> int:
    from privacy_release.proof.keys import signing_key_in
    from privacy_release.proof.published_keys import publish_key

    lake = lake_at(arguments.lake or default_lake())
    replaced = signing_key_in(arguments.replaces) if arguments.replaces else None
    path = publish_key(
        lake,
        signing_key_in(arguments.file),
        since=_midnight(arguments.since),
        until=_midnight(arguments.until, days=1),
        replaces=replaced,
    )
    print(f"{lake.root}/{path}")
    return 0


def _midnight(day: date | None, days: int = 0) -> datetime | None:
    """Return the beginning of a day, or of a later one."""
    return None if day is None else datetime.combine(day + timedelta(days), time(), UTC)
