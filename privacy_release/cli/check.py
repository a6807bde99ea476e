"""`privacy-release check`: read specifications before they run, or hold a table against its proof."""

import argparse
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_release.cli.arguments import WrongArgumentError, table_of
from privacy_release.cli.text import finding_lines

if TYPE_CHECKING:
    from privacy_release.proof.check import Checked, Verdict

_EPILOG = """\
Two things can be checked:

  check [SPEC ...]              specifications, and all that they name, before they run
  check LAKE/TABLE --key FILE   a published table: that its rows, reports and log are what was signed by one
                                of the keys, that no release is missing from the chain, and that the rows
                                keep their policy, which is measured again. It needs the table alone, and
                                no Airflow.

Exit codes: 0 right; 1 not what was signed, with every reason; 2 a wrong argument or file.
"""


def add_check_command(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog, parser.formatter_class = _EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="SPEC or LAKE/TABLE",
        help="YAML files as in include/releases (default: all of the include folder), or one table",
    )
    table = parser.add_argument_group("of a published table")
    table.add_argument(
        "--key", type=Path, metavar="FILE", help="public keys that you trust, as `key public` prints them"
    )
    table.add_argument("--release", metavar="ID", help="only this release; default: all current ones")
    table.add_argument(
        "--policy", type=Path, metavar="FILE", help="what you demand, a policy as the floor policy is one"
    )
    table.add_argument(
        "--since",
        type=int,
        default=0,
        metavar="N",
        help="place of the last statement that you have seen; a table with an older one was put back",
    )
    table.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(command=_check)


def _check(arguments: argparse.Namespace) -> int:
    if arguments.key is not None:
        return _check_table(arguments)
    if arguments.release or arguments.policy or arguments.since or arguments.json:
        raise WrongArgumentError("--release, --policy, --since and --json are about a table; give --key, too")
    return _check_specs([Path(target) for target in arguments.targets])


def _check_specs(paths: Sequence[Path]) -> int:
    from privacy_release.spec.catalogue import attempted, catalogue, raise_if_any

    faults = list[str]()
    if not paths:
        found = catalogue()
        paths, faults = list(found.usable), list(found.faults)
    for path in paths:
        _, fault = attempted(path.absolute(), partial(_check_whole, path))
        faults += [fault] if fault else []
        print(f"{path}: {'wrong' if fault else 'right'}")
    raise_if_any(faults)
    return 0


def _check_whole(path: Path) -> None:
    """Everything that can be known of a release without its records."""
    from privacy_release.spec.check import check_files, refuse_columns
    from privacy_release.spec.floor import floor_policy, under_floor
    from privacy_release.spec.methods import build_method
    from privacy_release.spec.model import load_spec
    from privacy_release.steps.validate import check_suite

    spec = load_spec(path)
    floor = floor_policy()
    check_files(spec, floor)
    refuse_columns(spec, under_floor(spec.release_policy(), floor))
    build_method(spec.release.method, spec.release.parameters)
    suites = [spec.expectation_suite(), *(table.suite() for table in (spec.tables or {}).values())]
    for suite in (suite for suite in suites if suite is not None):
        check_suite(suite)


def _check_table(arguments: argparse.Namespace) -> int:
    from privacy_release.proof.check import check_table
    from privacy_release.proof.keys import public_keys_in
    from privacy_release.spec.floor import read_floor

    if len(arguments.targets) != 1:
        raise WrongArgumentError(f"--key is about one LAKE/TABLE, got {len(arguments.targets)} of them")
    lake, name = table_of(arguments.targets[0])
    policy = arguments.policy
    verdict = check_table(
        lake,
        name,
        public_keys_in(arguments.key),
        release_id=arguments.release,
        demanded=None if policy is None else read_floor(policy.absolute(), "correct it"),
        since=arguments.since,
    )
    if arguments.json:
        print(json.dumps(verdict.to_dict(), indent=2, sort_keys=True))
    else:
        print("\n".join(_lines(verdict)))
    return 0 if verdict.right else 1


def _lines(verdict: "Verdict") -> Iterator[str]:
    answer = "yes" if verdict.right else "NO"
    yield f"{answer:<5} {verdict.lake}/{verdict.table}, statement {verdict.sequence}"
    for reason in verdict.reasons:
        of = f"release {reason.release}: " if reason.release else ""
        yield f"  {reason.fault}: {of}{reason.text}"
    for checked in verdict.releases:
        yield from _about(checked)


def _about(checked: "Checked") -> Iterator[str]:
    """A release that was looked at."""
    files = f"{checked.files} data files" if checked.files != 1 else "one data file"
    files += " that another tool wrote" if checked.rewritten else ""
    yield f"release {checked.release}: {checked.rows:,} rows in {files}"
    yield f"  statement {checked.sequence}, signed {checked.signed} by {checked.key[:16]}"
    approval = checked.approval or {}
    for answer in filter(None, (approval.get("first"), approval)):  # two people may have had to approve it
        yield f"  approved  by {_name(answer.get('by'))}, {answer.get('at')}"
    if entry := checked.ledger_entry:
        yield f"  booked    for the data set {entry['dataset']}, ledger entry {entry['entry_hash']}"
    yield from (f"  {line}" for line in finding_lines(checked.findings))
    yield from (f"  on trust  {rule}: {why}" for rule, why in checked.on_trust.items())


def _name(by: object) -> str:
    """Who approved: a name, where the command line was told it, else Airflow's form of a user."""
    return str((by.get("name") if isinstance(by, dict) else by) or "nobody, for nobody had to be asked")
