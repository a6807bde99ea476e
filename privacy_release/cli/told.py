"""Commands that tell others of a release: `register` a Unity Catalog, `registry` the Deployments Registry."""

import argparse
import os
import sys

import yaml

from privacy_release.cli.arguments import table_of, usage
from privacy_release.reports.registry import CURATORS, SCHEMA_VERSION, SECTORS, Deployment

TOKEN = "PRIVACY_UNITY_TOKEN"
_OF_CATALOG = f"""\
The catalog keeps the table's address, columns with their comments, and description; the records stay where
they are. The token of the catalog is read from ${TOKEN}. A table that is registered already is left as it is.
"""
_OF_REGISTRY = f"""\
Prints YAML by the registry's schema (opendp/deployments-registry-data, commit {SCHEMA_VERSION}), a draft of
tier 2 for you to complete and submit. What it tells is public: parameters of the guarantee, and no count that
the guarantee hides.
"""


def add_register_command(parser: argparse.ArgumentParser) -> None:
    """Give the parser of `register` its arguments."""
    parser.epilog = _OF_CATALOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("target", metavar="LAKE/TABLE", help="table of a lake")
    parser.add_argument("--unity", required=True, metavar="URL", help="address of the catalog's server")
    parser.add_argument("--catalog", required=True, metavar="NAME", help="catalog that the table belongs to")
    parser.add_argument("--schema", required=True, metavar="NAME", help="schema that the table belongs to")
    parser.add_argument("--name", metavar="NAME", help="of the table there; default: its own")
    parser.set_defaults(command=_register)


def _register(arguments: argparse.Namespace) -> int:
    from privacy_release.lake.catalog import UnityCatalog, register

    lake, name = table_of(arguments.target)
    with usage("--unity"):
        unity = UnityCatalog(
            url=arguments.unity,
            token=os.environ.get(TOKEN) or None,
            catalog=arguments.catalog,
            schema=arguments.schema,
        )
    new = register(lake, name, unity, table=arguments.name)
    print(f"{name} {'is' if new else 'was'} registered in {unity.catalog}.{unity.schema}")
    return 0


def add_registry_command(parser: argparse.ArgumentParser) -> None:
    """Give the parser of `registry` its arguments."""
    parser.epilog = _OF_REGISTRY
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("target", metavar="LAKE/TABLE", help="table of a lake")
    parser.add_argument("release", metavar="RELEASE", help="id of the release")
    parser.add_argument("--curator", required=True, metavar="NAME", help="who publishes the data")
    parser.add_argument("--curator-type", required=True, choices=CURATORS, help="what kind of publisher")
    parser.add_argument("--intended-use", required=True, metavar="TEXT", help="what the data are for")
    parser.add_argument("--region", required=True, metavar="TEXT", help="that the data describe")
    parser.add_argument(
        "--author", required=True, action="append", metavar="NAME", help="of the record; may be repeated"
    )
    parser.add_argument("--sector", choices=SECTORS, help="that the data describe")
    parser.add_argument("--description", metavar="TEXT", help="of the data; default: how they were made")
    parser.set_defaults(command=_registry)


def _registry(arguments: argparse.Namespace) -> int:
    from privacy_release.lake.log import publications
    from privacy_release.lake.read import manifest_of
    from privacy_release.reports.registry import deployment_record

    lake, name = table_of(arguments.target)
    manifest = manifest_of(lake, name, arguments.release)
    known = publications(lake, name)
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
        table=name,
        published=known[0].committed[:10],
        releases=len({entry.release_id for entry in known}),
    )
    yaml.safe_dump(record, sys.stdout, sort_keys=False, allow_unicode=True, width=100)
    return 0
