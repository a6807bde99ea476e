"""`privacy-release register`: make a release table known to a Unity Catalog."""

import argparse
import os

from privacy_release.cli.arguments import table_of, usage

TOKEN = "PRIVACY_UNITY_TOKEN"
_EPILOG = f"""\
The catalog keeps the table's address, columns with their comments, and description; the records stay where
they are. The token of the catalog is read from ${TOKEN}. A table that is registered already is left as it is.
"""


def add_register_command(parser: argparse.ArgumentParser) -> None:
    """Give the parser of `register` its arguments."""
    parser.epilog = _EPILOG
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
