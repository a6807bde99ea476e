"""`make samples`: writes the tables that the example releases read, unless they exist already."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from deploy.local.samples.files import SAMPLES, weeks_around, write_samples


def main() -> None:
    """Parse the command line, and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local.samples", description=__doc__)
    parser.add_argument(
        "folder", type=Path, nargs="?", default=SAMPLES, help="folder of the tables (default: %(default)s)"
    )
    parser.add_argument(
        "--keys", nargs="+", metavar="KEY", help="partitions with a delivery; default: the weeks around today"
    )
    arguments = parser.parse_args()
    for file in write_samples(arguments.folder, arguments.keys or weeks_around(datetime.now(UTC))):
        print(file)


if __name__ == "__main__":
    main()
