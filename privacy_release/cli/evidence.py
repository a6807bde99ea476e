"""Commands that inform others about a release.

`register` informs a Unity Catalog, `registry` the Deployments Registry, `evidence` an expert or an authority.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from privacy_engine.vocabulary import counted
from privacy_release.cli.arguments import WrongArgumentError, table_of, usage, write_whole
from privacy_release.reports.registry import CURATORS, SCHEMA_VERSION, SECTORS, Deployment

if TYPE_CHECKING:
    from privacy_release.proof.keys import SigningKey

TOKEN = "PRIVACY_UNITY_TOKEN"
_OF_CATALOG = f"""\
The catalog keeps the table's address, columns with their comments, and description; the records stay where
they are. The token of the catalog is read from ${TOKEN}. A table that is already registered is not changed.
"""
_OF_REGISTRY = f"""\
Prints YAML in the registry's schema (opendp/deployments-registry-data, commit {SCHEMA_VERSION}), a draft of
tier 2 for you to complete and submit. Its content is public: parameters of the guarantee, and no count that
the guarantee hides.
"""


_OF_EVIDENCE = """\
The archive contains the policy, every finding, the attacks that were tried, the risks of the released
classes, and what WP29, HIPAA and NIST SP 800-188 require and the release shows of it, as a page, a PDF and
JSON; the manifest and report as published; and a form for the opinion of an expert. It contains no record.
Write the opinion and make the archive again with --opinion FILE: then the signature covers the opinion, too.
"""


def add_evidence_commands(commands: Any) -> None:
    """Declare `make` and `check`."""
    make = commands.add_parser(
        "make",
        help="write the evidence of a release into one signed archive",
        description="Write the evidence of a release into one signed archive.",
        epilog=_OF_EVIDENCE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    make.add_argument("target", metavar="LAKE/TABLE", help="table of a lake")
    make.add_argument("release", metavar="RELEASE", help="ID of the release")
    make.add_argument(
        "--sign",
        type=Path,
        action="append",
        metavar="FILE",
        help="private key of `key new`; may be repeated. Default: the key of the setting `signing_key`",
    )
    make.add_argument("--opinion", type=Path, metavar="FILE", help="opinion of the expert, as plain text")
    make.add_argument("--no-pdf", action="store_true", help="omit the PDF, which needs the extra `pdf`")
    make.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: TABLE-RELEASE-evidence.zip here"
    )
    make.set_defaults(command=_make_evidence)
    check = commands.add_parser(
        "check",
        help="verify the signature of an evidence archive",
        description="Verify the signature of an evidence archive. Exit code 1: it is not what was signed.",
    )
    check.add_argument("archive", type=Path, metavar="FILE", help="archive of `evidence make`")
    check.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="public keys that you trust, of `key public`"
    )
    check.add_argument("--table", metavar="LAKE/TABLE", help="table that must still have the release")
    check.set_defaults(command=_check_evidence)


def _make_evidence(arguments: argparse.Namespace) -> int:
    from privacy_release.evidence.archive import pack

    table = table_of(arguments.target)
    opinion = None if arguments.opinion is None else _bytes(arguments.opinion).decode(errors="replace")
    keys = _signing_keys(arguments.sign)
    data = pack(table, arguments.release, keys, opinion=opinion, pdf=not arguments.no_pdf)
    release = "".join(c if c.isalnum() or c in "-_." else "_" for c in arguments.release)
    output: Path = arguments.output or Path(f"{table.name}-{release}-evidence.zip")
    write_whole(output, data)
    said = "the expert's opinion" if opinion is not None else "a form for the expert's opinion"
    signed = keys[0].public.id[:16]
    print(f"{output}: evidence of release {arguments.release} of {table.name}, with {said}, signed {signed}")
    return 0


def _signing_keys(files: list[Path] | None) -> "list[SigningKey]":
    """Return the named keys, or the one of the settings."""
    from privacy_release.proof.keys import signing_key_in
    from privacy_release.proof.statement import signer_of_settings

    if files:
        return [signing_key_in(file) for file in files]
    signer = signer_of_settings()
    return [] if signer is None else [signer.key]


def _check_evidence(arguments: argparse.Namespace) -> int:
    from privacy_release.evidence.archive import check, require_of_release
    from privacy_release.proof.keys import public_keys_in

    found = check(_bytes(arguments.archive), public_keys_in(arguments.key))
    if arguments.table is not None:
        require_of_release(found, table_of(arguments.table))
    signed = ", ".join(sorted(key[:16] for key in found.keys))
    opinion = "with an expert's opinion" if found.opinion else "without an expert's opinion"
    print(
        f"yes   release {found.release} of {found.table}, {opinion}, "
        f"{counted(len(found.files), 'file')} signed {signed}"
    )
    if arguments.table is None:
        print("      whether the lake still has this release was not checked: add --table LAKE/TABLE")
    return 0


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise WrongArgumentError(f"{file}: the file cannot be read, {error.strerror}") from None


def add_register_command(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `register` to the parser."""
    parser.epilog = _OF_CATALOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("target", metavar="LAKE/TABLE", help="table of a lake")
    parser.add_argument("--unity", required=True, metavar="URL", help="address of the catalog's server")
    parser.add_argument("--catalog", required=True, metavar="NAME", help="catalog that the table belongs to")
    parser.add_argument("--schema", required=True, metavar="NAME", help="schema that the table belongs to")
    parser.add_argument("--name", metavar="NAME", help="name of the table in the catalog; default: its own")
    parser.set_defaults(command=_register)


def _register(arguments: argparse.Namespace) -> int:
    from privacy_release.lake.catalog import UnityCatalog, register

    table = table_of(arguments.target)
    with usage("--unity"):
        unity = UnityCatalog(
            url=arguments.unity,
            token=os.environ.get(TOKEN) or None,
            catalog=arguments.catalog,
            schema=arguments.schema,
        )
    new = register(table, unity, table=arguments.name)
    print(f"{table.name} {'is' if new else 'was'} registered in {unity.catalog}.{unity.schema}")
    return 0


def add_registry_command(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `registry` to the parser."""
    parser.epilog = _OF_REGISTRY
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("target", metavar="LAKE/TABLE", help="table of a lake")
    parser.add_argument("release", metavar="RELEASE", help="ID of the release")
    parser.add_argument("--curator", required=True, metavar="NAME", help="publisher of the data")
    parser.add_argument("--curator-type", required=True, choices=CURATORS, help="kind of the publisher")
    parser.add_argument("--intended-use", required=True, metavar="TEXT", help="intended use of the data")
    parser.add_argument("--region", required=True, metavar="TEXT", help="region that the data describe")
    parser.add_argument(
        "--author",
        required=True,
        action="append",
        metavar="NAME",
        help="author of the record; may be repeated",
    )
    parser.add_argument("--sector", choices=SECTORS, help="sector that the data describe")
    parser.add_argument(
        "--description", metavar="TEXT", help="description of the data; default: how they were made"
    )
    parser.set_defaults(command=_registry)


def _registry(arguments: argparse.Namespace) -> int:
    from privacy_release.lake.log import publications
    from privacy_release.lake.read import standing_manifest
    from privacy_release.reports.registry import deployment_record

    table = table_of(arguments.target)
    manifest = standing_manifest(table, arguments.release)
    known = publications(table)
    with usage("registry"):
        said = Deployment(
            curator=arguments.curator,
            curator_type=arguments.curator_type,
            intended_use=arguments.intended_use,
            region=arguments.region,
            authors=arguments.author,
            sector=arguments.sector,
            description=arguments.description,
        )
    record = deployment_record(
        manifest,
        said,
        table=table.name,
        published=known[0].committed[:10],
        releases=len({entry.release_id for entry in known}),
    )
    yaml.safe_dump(record, sys.stdout, sort_keys=False, allow_unicode=True, width=100)
    return 0
