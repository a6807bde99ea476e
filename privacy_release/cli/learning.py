"""`privacy-release reconstruct`: estimate figures of the people in a randomized release, with errors."""

import argparse
import sys
from typing import TYPE_CHECKING

from privacy_release.cli.arguments import WrongArgumentError, table_of

if TYPE_CHECKING:
    import pandas as pd

_EPILOG = """\
No one can tell which answers of a randomized release are true. From their numbers, the shares of
each value are estimated without bias (that of a rare value may be below 0), and mean and variance of each
number. standard_error is for the population's figure, randomization_error for the source's.
"""


def add_reconstruct_command(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `reconstruct` to the parser."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("target", metavar="LAKE/TABLE", help="table of a lake")
    parser.add_argument("release", metavar="RELEASE", help="ID of the release")
    parser.add_argument("--numbers", action="store_true", help="mean and variance of numbers, not shares")
    parser.add_argument("--csv", action="store_true", help="print CSV, with all digits")
    parser.set_defaults(command=_reconstruct)


def _reconstruct(arguments: argparse.Namespace) -> int:
    from privacy_engine.learning.reconstruction import reconstructed_distributions, reconstructed_moments
    from privacy_release.lake.read import read_release, standing_manifest

    release_table = table_of(arguments.target)
    manifest = standing_manifest(release_table, arguments.release)
    if manifest.randomization is None:
        raise WrongArgumentError(
            f"the release of table {release_table.name} must be a randomized one, but its method is "
            f"{manifest.method}; read its records directly"
        )
    released = read_release(release_table, arguments.release).to_pandas()
    reconstructed = reconstructed_moments if arguments.numbers else reconstructed_distributions
    table = reconstructed(released, manifest.stored)
    if table.empty:
        kind = "number" if arguments.numbers else "listed attribute"
        raise WrongArgumentError(
            f"the release of table {release_table.name} randomized no {kind}; request the other table"
        )
    sys.stdout.write(table.to_csv(index=False) if arguments.csv else _text(table))
    return 0


def _text(table: "pd.DataFrame") -> str:
    return table.to_string(index=False, na_rep="(no value)", float_format=lambda x: f"{x:.4g}") + "\n"
