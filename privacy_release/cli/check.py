"""`privacy-release check`: check specifications before they run, or a table against its proof."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.vocabulary import counted
from privacy_release.checking.rules import FEW, CheckResult, CheckRules
from privacy_release.cli.areas import removed_after
from privacy_release.cli.arguments import (
    WrongArgumentError,
    default_lake,
    lake_at,
    table_of,
    work_root,
)
from privacy_release.cli.text import finding_lines

if TYPE_CHECKING:
    from privacy_release.explore.cost import Cost
    from privacy_release.lake.store import Lake
    from privacy_release.proof.check import Checked, Verdict
    from privacy_release.workarea.area import WorkArea

WRONG = 2  # exit code for a wrong file

_EPILOG = """\
Two things can be checked:

  check [SPEC ...]              specifications, and all that they name, before they run: problems are listed
                                by file, line and field
  check LAKE/TABLE --key FILE   a published table: that its rows, reports and log are what was signed by one
                                of the keys, that no release is missing from the chain, and that the rows
                                meet their policy, which is measured again. It needs only the table, and
                                no Airflow.

Exit codes: 0 right; 1 not what was signed, with every reason; 2 a wrong argument, file or source.
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
    table = parser.add_argument_group("for a published table")
    table.add_argument(
        "--key", type=Path, metavar="FILE", help="public keys that you trust, as printed by `key public`"
    )
    table.add_argument(
        "--release",
        metavar="ID",
        help="only this release; default: all current ones. With --source: the value of {release}",
    )
    table.add_argument(
        "--policy", type=Path, metavar="FILE", help="policy that you require, in the form of the floor policy"
    )
    table.add_argument(
        "--since",
        type=int,
        default=0,
        metavar="N",
        help="the newest statement you have seen; report a table whose newest statement is older as restored "
        "from a backup",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--published",
        default="",
        metavar="NAME,NAME",
        help="assets in schedules of specifications that other DAGs publish",
    )
    parser.add_argument(
        "--users",
        metavar="NAME,NAME",
        help="users who may approve; default: those in Airflow's configuration",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="fail if something could not be judged, for example without a lake or a ledger",
    )
    source = parser.add_argument_group("for the source of a specification")
    source.add_argument(
        "--source",
        action="store_true",
        help="also read the source and check types, domains and expectations; problems are counts; "
        f"default: if it is on this machine, has at most {FEW:,} records and no budget pays",
    )
    source.add_argument("--no-source", action="store_true", help="do not read the source")
    source.add_argument(
        "--curator",
        action="store_true",
        help="--source, and write the values that categories and hierarchies miss to the curator's folder",
    )
    source.add_argument(
        "--cost",
        action="store_true",
        help="--source, and run the method on samples of it, to predict time and memory of a run",
    )
    parser.set_defaults(command=_check)


def _check(arguments: argparse.Namespace) -> int:
    if arguments.key is not None:
        return _check_table(arguments)
    if arguments.policy or arguments.since:
        raise WrongArgumentError("--policy and --since are about a table; add --key")
    if arguments.release and not _reads_source(arguments):
        raise WrongArgumentError("--release is about a table or a source; add --key or --source")
    return _check_specs(arguments)


def _check_specs(arguments: argparse.Namespace) -> int:
    from privacy_release.checking.specification import check_specification
    from privacy_release.spec.catalogue import release_files
    from privacy_release.spec.floor import floor_policy

    paths = [Path(target) for target in arguments.targets] or release_files()
    rules = CheckRules(
        floor=floor_policy(),
        lake=_lake,
        area=_area,
        elsewhere=_words(arguments.published),
        users=_users() if arguments.users is None else _words(arguments.users),
        source=_reads_source(arguments),
        curator=arguments.curator,
        cost=arguments.cost,
        release_id=arguments.release or "check",
    )
    found = {path: check_specification(path.absolute(), rules) for path in paths}
    if arguments.json:
        print(json.dumps([_to_dict(path, answer) for path, answer in found.items()], indent=2))
    else:
        for path, answer in found.items():
            if not answer.problems:
                unread = "" if answer.read else "; the source was not read (--source)"
                about = f"{_cost_line(answer.cost)}{unread}{_unjudged_line(answer.unjudged)}"
                print(f"{path}: right{about}")
            if answer.left_out:
                print(
                    f"{path}: hidden or empty files of the source are not read: {', '.join(answer.left_out)}"
                )
            for warning in answer.warnings:
                print(f"{path}: warning: {warning}")
            for problem in answer.for_now:
                print(f"{path}: not now: {problem.text}")
            if answer.promise is not None:
                print(f"{path}: {answer.promise}")
            for problem in answer.problems:
                line = "" if problem.line is None else f"{problem.line}:"
                named = "" if problem.file == str(path.absolute()) else f" (named by {path})"
                print(f"{problem.file}:{line} {problem.text}{named}", file=sys.stderr)
    return WRONG if any(answer.is_wrong(arguments.strict) for answer in found.values()) else 0


def _reads_source(arguments: argparse.Namespace) -> bool | None:
    """Return whether the sources are read. None: only small ones."""
    requested = arguments.source or arguments.curator or arguments.cost
    if requested and arguments.no_source:
        raise WrongArgumentError("--no-source cannot be combined with --source, --curator or --cost")
    return False if arguments.no_source else requested or None


def _unjudged_line(unjudged: Sequence[str]) -> str:
    return f"; not judged: {', '.join(unjudged)}" if unjudged else ""


def _cost_line(cost: "Cost | str | None") -> str:
    if cost is None or isinstance(cost, str):
        return "" if cost is None else f"; {cost}"
    seconds, memory = _range(*cost.seconds), _range(*(number / 2**20 for number in cost.memory))
    how = "measured" if cost.measured == cost.rows else f"predicted from {cost.measured:,} of them"
    return f"; {counted(cost.rows, 'record takes', 'records take')} {seconds} s and {memory} MB, {how}"


def _range(low: float, high: float) -> str:
    """Format both numbers with two digits, or one number if they are equal."""
    low, high = (float(f"{number:.2g}") for number in (low, high))
    return f"{low:,g}" if low == high else f"{low:,g} to {high:,g}"


def _lake() -> "Lake | None":
    """The default lake; None where none is configured."""
    with suppress(WrongArgumentError):
        return lake_at(default_lake())
    return None


@contextmanager
def _area(name: str) -> "Iterator[WorkArea]":
    """A work area of this command."""
    from privacy_release.workarea.area import WorkArea

    work = WorkArea(work_root(), name)
    with removed_after(work):
        yield work


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(","))


def _users() -> frozenset[str] | None:
    """Return the IDs of Airflow's users. None if they are unknown."""
    from privacy_release.config.host import answer_of

    users = answer_of("users")
    return None if users is None else users()


def _to_dict(path: Path, answer: CheckResult) -> dict[str, Any]:
    """Return the result for a file as `--json` prints it."""
    fields: dict[str, Any] = {
        "file": str(path),
        "right": not answer.problems,
        "problems": [
            {"file": p.file, "line": p.line, "field": ".".join(map(str, p.path)), "problem": p.text}
            for p in answer.problems
        ],
    }
    if answer.for_now:
        fields["not_now"] = [problem.text for problem in answer.for_now]
    if answer.unjudged:
        fields["not_judged"] = list(answer.unjudged)
    if answer.warnings:
        fields["warnings"] = list(answer.warnings)
    if answer.left_out:
        fields["left_out"] = list(answer.left_out)
    if answer.promise is not None:
        fields["promise"] = answer.promise
    if answer.cost is not None:
        fields["cost"] = answer.cost if isinstance(answer.cost, str) else asdict(answer.cost)
    return fields


def _check_table(arguments: argparse.Namespace) -> int:
    from privacy_release.proof.check import check_table
    from privacy_release.proof.keys import public_keys_in
    from privacy_release.spec.floor import read_floor

    if len(arguments.targets) != 1:
        raise WrongArgumentError(f"--key requires one LAKE/TABLE, got {len(arguments.targets)} of them")
    table = table_of(arguments.targets[0])
    policy = arguments.policy
    verdict = check_table(
        table,
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
    """Describe a release that was checked."""
    files = f"{checked.files} data files" if checked.files != 1 else "one data file"
    files += " that another tool wrote" if checked.rewritten else ""
    yield f"release {checked.release}: {counted(checked.rows, 'row')} in {files}"
    yield f"  statement {checked.sequence}, signed {checked.signed} by {checked.key[:16]}"
    approval = checked.approval or {}
    for answer in filter(None, (approval.get("first"), approval)):  # two people may have had to approve
        yield f"  approved  by {_name(answer.get('by'))}, {answer.get('at')}"
    if entry := checked.ledger_entry:
        yield f"  booked    for the data set {entry['dataset']}, ledger entry {entry['entry_hash']}"
    yield from (f"  {line}" for line in finding_lines(checked.findings))
    yield from (f"  over time {note}" for note in checked.over_time)
    yield from (f"  on trust  {rule}: {why}" for rule, why in checked.on_trust.items())


def _name(by: object) -> str:
    """Return who approved: a name given on the command line, or the user in Airflow's form."""
    return str((by.get("name") if isinstance(by, dict) else by) or "no one, because no approval was required")
