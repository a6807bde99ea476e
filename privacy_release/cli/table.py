"""`privacy-release table`: show or change how a release table keeps its releases, and clean it up."""

import argparse

from privacy_engine.vocabulary import PublishMode, counted
from privacy_release.cli.arguments import lake_at, table_of, usage
from privacy_release.config.durations import parse_duration


def add_table_command(parser: argparse.ArgumentParser) -> None:
    """Declare `table`."""
    parser.description = (
        "Show which releases a table keeps (its mode), change that for future releases, or clear "
        "superseded releases: into the history if the table has one, and from the disk."
    )
    parser.add_argument("target", metavar="LAKE/TABLE", help="table of a lake")
    parser.add_argument(
        "--mode",
        choices=[mode.value for mode in PublishMode],
        help="keep these releases from the next one on; a table of an earlier version has no mode yet",
    )
    parser.add_argument("--clear", action="store_true", help="clear superseded releases")
    parser.add_argument(
        "--grace", metavar="SPAN", help="age from which they are cleared; default: that of the table"
    )
    parser.add_argument(
        "--history-lake", metavar="DIR", help="lake of the history; default: the one that the table names"
    )
    parser.set_defaults(command=table)


def table(arguments: argparse.Namespace) -> int:
    """Run the command `table`."""
    from privacy_release.lake.layout import recorded, set_mode
    from privacy_release.lake.log import existing_table
    from privacy_release.lake.superseded import settle

    release_table = table_of(arguments.target)
    with usage("--grace"):
        grace = None if arguments.grace is None else parse_duration(arguments.grace)
    if arguments.mode is not None:
        before = set_mode(release_table, PublishMode(arguments.mode))
        previous = before.value if before else "that of an earlier version"
        print(f"its mode was {previous}")
    rules = recorded(existing_table(release_table))
    kept = f", in {rules.history}/{release_table.name}_history" if rules.history else ""
    print(
        f"{release_table.lake.root}/{release_table.name} has the mode "
        f"{rules.mode.value if rules.mode else 'none: partitions'}; "
        f"superseded releases: {rules.superseded.value}{kept}"
    )
    if arguments.clear:
        history = None
        if arguments.history_lake is not None:
            history = lake_at(arguments.history_lake, "--history-lake")
        done = settle(release_table, history=history, grace=grace)
        print(
            f"{counted(done.moved, 'release')} moved, {counted(done.erased, 'file')} erased, "
            f"{done.waiting} left for later"
        )
    return 0
