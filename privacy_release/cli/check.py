"""`privacy-release check`: check specifications before they run, or a table against its proof."""

import argparse
import json
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.vocabulary import counted
from privacy_release.cli.areas import removed_after
from privacy_release.cli.arguments import (
    WrongArgumentError,
    default_lake,
    lake_at,
    table_of,
    usage,
    work_root,
)
from privacy_release.cli.text import finding_lines

if TYPE_CHECKING:
    from privacy_engine.errors import Problem
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.explore.cost import Cost
    from privacy_release.proof.check import Checked, Verdict
    from privacy_release.spec.floor import Floor
    from privacy_release.spec.model import ReleaseSpec
    from privacy_release.spec.rules.facts import Facts
    from privacy_release.spec.rules.judge import Judged
    from privacy_release.workarea.area import WorkArea
    from privacy_release.workarea.references import Table

WRONG = 2  # exit code for a wrong file
_FEW = 100_000  # number of records up to which a source is read by default

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
        f"default: if it is on this machine, has at most {_FEW:,} records and no budget pays",
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
    from privacy_release.spec.catalogue import release_files
    from privacy_release.spec.floor import floor_policy

    paths = [Path(target) for target in arguments.targets] or release_files()
    rules = _Rules(
        floor=floor_policy(),
        elsewhere=_words(arguments.published),
        users=_users() if arguments.users is None else _words(arguments.users),
        source=_reads_source(arguments),
        curator=arguments.curator,
        cost=arguments.cost,
        release_id=arguments.release or "check",
        strict=arguments.strict,
    )
    found = {path: _answer(path.absolute(), rules) for path in paths}
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


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(","))


def _users() -> frozenset[str] | None:
    """Return the IDs of Airflow's users. None if they are unknown."""
    from privacy_release.config.host import answer_of

    users = answer_of("users")
    return None if users is None else users()


@dataclass(frozen=True)
class _Answer:
    """The result of checking a specification.

    Attributes:
        problems: Problems that must be corrected.
        for_now: Problems that prevent a release today, and may disappear.
        unjudged: Facts that could not be found.
        read: Whether the source was read, or reading it was not requested.
        promise: Guarantee of its schedule, in words.
        cost: Cost of a run, if requested.
        left_out: Names of files of the source that are not read, if it was read.
    """

    problems: "Sequence[Problem]" = ()
    for_now: "Sequence[Problem]" = ()
    unjudged: Sequence[str] = ()
    read: bool = True
    promise: str | None = None
    cost: "Cost | str | None" = None
    left_out: Sequence[str] = ()

    def is_wrong(self, strict: bool) -> bool:
        """Return whether the command fails."""
        return bool(self.problems) or (strict and bool(self.for_now or self.unjudged))


def _to_dict(path: Path, answer: _Answer) -> dict[str, Any]:
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
    if answer.left_out:
        fields["left_out"] = list(answer.left_out)
    if answer.promise is not None:
        fields["promise"] = answer.promise
    if answer.cost is not None:
        fields["cost"] = answer.cost if isinstance(answer.cost, str) else asdict(answer.cost)
    return fields


@dataclass(frozen=True, kw_only=True)
class _Rules:
    """What specifications are checked against.

    Attributes:
        floor: Floor policy.
        elsewhere: Assets that no specification publishes.
        users: Users who may approve. None: unknown.
        source: Whether the sources are read. None: only small ones.
        curator: Whether values that domains miss are written to the curator's folder.
        cost: Whether samples of the sources are released, to predict the cost of all records.
        release_id: Value of `{release}` in the address of a source.
        strict: Whether it is a problem if something could not be judged.
    """

    floor: "Floor | None"
    elsewhere: frozenset[str]
    users: frozenset[str] | None
    source: bool | None
    curator: bool
    cost: bool
    release_id: str
    strict: bool


def _answer(path: Path, rules: _Rules) -> _Answer:
    """Return all that can be known about a release before its method runs, by file and line."""
    from privacy_engine.errors import PrivacyEngineError, Problem
    from privacy_release.spec.lines import located

    try:
        spec, checked = _check_whole(path, rules)
        source = _check_source(spec, rules) if rules.source else _check_small_source(spec, rules)
        return _Answer(
            for_now=checked.for_now,
            unjudged=_unjudged(checked),
            read=source is not None or rules.source is not None,
            promise=_promise(spec),
            cost=None if source is None else source.cost,
            left_out=() if source is None else source.left_out,
        )
    except PrivacyEngineError as error:
        return _Answer(list(dict.fromkeys(located(path, error).problems)))
    except Exception as error:  # noqa: BLE001  the other files are checked; its message may quote records
        return _Answer([Problem(text=f"cannot be used, unexpected {type(error).__name__}", file=str(path))])


# Messages about unknown facts. Others become known later, or their lack is a problem itself.
_UNJUDGED = {"users": "users", "signed": "signature", "earlier": "lake", "shortage": "ledger"}


def _unjudged(found: "Judged") -> list[str]:
    unknown = {name for missing in found.unjudged.values() for name in missing}
    return [word for name, word in _UNJUDGED.items() if name in unknown]


def _check_whole(path: Path, rules: _Rules) -> "tuple[ReleaseSpec, Judged]":
    """Check what can be known without records."""
    from privacy_release.config.problems import gathered, raise_problems
    from privacy_release.spec.catalogue import only_of_its_name
    from privacy_release.spec.check import (
        files_of,
        learned,
        method_of,
        policy_of,
        schema_of,
        sources_of,
    )
    from privacy_release.spec.model import load_spec
    from privacy_release.spec.rules.judge import judged

    spec = load_spec(path, judge=False)
    others = {file.stem for file in path.parent.glob("*.y*ml")} - {spec.name} | rules.elsewhere
    found = gathered([partial(only_of_its_name, path), *files_of(spec)])
    parts = [policy_of(spec, rules.floor), sources_of(spec), method_of(spec)]
    if not found:  # otherwise the schema is of wrong files
        parts.append(schema_of(spec))
    facts, unknown = learned(spec, *parts)
    found += [*unknown, *(gathered([partial(_check_suites, spec)]) if not found else ())]
    facts = replace(facts, published=frozenset(others), users=_known_users(spec, rules))
    if not spec.publish.evidence and (rules.floor is None or not rules.floor.signed):
        facts = replace(facts, signed=False)
    facts = facts if found else _with_lake(facts, spec, rules)
    raise_problems([*found, *judged(facts).problems])
    checked = judged(_with_ledger(facts, spec, rules))  # last, so that an unreachable ledger hides no mistake
    raise_problems(checked.problems)
    return spec, checked


def _known_users(spec: "ReleaseSpec", rules: _Rules) -> Any:
    """Return the users who may approve. Not needed if the file names none."""
    from privacy_release.spec.rules.facts import UNKNOWN

    if rules.users is not None or not (spec.approval and spec.approval.assigned_to):
        return rules.users or frozenset()
    return UNKNOWN


def _with_lake(facts: "Facts", spec: "ReleaseSpec", rules: _Rules) -> "Facts":
    """Add the facts from the lake, if there is one, and the promise of the schedule."""
    from privacy_release.budget.schedules import schedule_named
    from privacy_release.steps.facts import asks_for_earlier, with_lake

    said = None if spec.budget is None else spec.budget.schedule
    facts = replace(facts, promise=None if said is None else schedule_named(spec.name, said).promise)
    if not asks_for_earlier(facts):
        return replace(facts, earlier=None, unjudged=0)
    with suppress(WrongArgumentError):
        return with_lake(facts, spec, lake_at(default_lake()).table(spec.publish.table), rules.release_id)
    return facts


def _with_ledger(facts: "Facts", spec: "ReleaseSpec", rules: _Rules) -> "Facts":
    """Add the facts from the ledger, if there is one."""
    from privacy_release.ledger.default import default_place, ledger_at
    from privacy_release.steps.facts import budget_of, with_ledger

    if spec.budget is None:
        return with_ledger(facts, None)
    ledger = ledger_at(default_place())
    if ledger.is_file and not Path(ledger.place).exists():  # reading it would create it
        return facts
    table = None
    with suppress(WrongArgumentError):
        table = lake_at(default_lake()).table(spec.publish.table)
    budget = budget_of(spec, f"{spec.name}/{rules.release_id}", ledger)
    return with_ledger(facts, budget, table)


def _promise(spec: "ReleaseSpec") -> str | None:
    """Return the total loss of its schedule's releases in words. None if each is paid separately."""
    from privacy_release.budget.schedules import schedule_named
    from privacy_release.reports.text import promise_in_words
    from privacy_release.spec.methods import build_method

    said = None if spec.budget is None else spec.budget.schedule
    if said is None:
        return None
    loss = build_method(spec.release.method, spec.release.parameters).privacy_loss(spec.method_schema())
    assert loss is not None  # a budget requires a method that spends
    return promise_in_words(schedule_named(spec.name, said).to_dict(loss))


def _check_small_source(spec: "ReleaseSpec", rules: _Rules) -> "_Source | None":
    """Read the source by default if it is small. None if it was not read."""
    from privacy_engine.errors import ProblemsError, SecretError, SpecError

    if rules.source is not None or not _is_small(spec):
        return None
    try:
        return _check_source(spec, rules)
    except ProblemsError:
        raise
    except (SecretError, SpecError):  # a key that only users who run it have
        return None


def _is_small(spec: "ReleaseSpec") -> bool:
    """Return whether the source has few records on this machine, and problems may be reported as counts.

    The actions of a checkpoint may send messages, so it is only run on request.
    """
    from privacy_engine.errors import MissingSourceError, SchemaError
    from privacy_release.sources.addresses import find_source

    suites = [spec.suite_given, *(table.suite_given for table in (spec.tables or {}).values())]
    if any(isinstance(suite, dict) for suite in suites):
        return False
    rows = 0
    for source in spec.sources:
        if spec.budget is not None or source.uri is None or source.format != "parquet" or "{" in source.uri:
            return False
        try:
            found = find_source(source.uri)
        except MissingSourceError:
            return False
        except SchemaError:  # reading it reports why
            return True
        if not found.is_local:
            return False
        rows += sum(map(_rows_of, found.files))
    return rows <= _FEW


def _rows_of(file: str) -> int:
    """Return the number of records in a file's footer. 0 if it has none, which reading reports."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError):
        return 0


@dataclass(frozen=True, kw_only=True)
class _Source:
    """A source that was read.

    Attributes:
        cost: Cost of a run, if requested.
        left_out: Names of its files that are not read.
    """

    cost: "Cost | str | None"
    left_out: Sequence[str]


def _check_source(spec: "ReleaseSpec", rules: _Rules) -> _Source:
    """Rehearse the plan up to the release. Problems are counts; the values are only for the curator."""
    from privacy_engine.errors import InfeasibleError, MissingSourceError, Problem, ProblemsError, SchemaError
    from privacy_release.running.preparing import source_table
    from privacy_release.spec.floor import under_floor
    from privacy_release.steps.curator import write_missing_values
    from privacy_release.workarea.area import WorkArea
    from privacy_release.workarea.staged import left_out_of

    read = spec.model_copy(update={"outliers": None})
    if read.source is not None:  # a check does not wait
        read = read.model_copy(
            update={"source": read.source.model_copy(update={"when_missing": "fail", "wait": None})}
        )
    policy = under_floor(spec.release_policy(), rules.floor)
    work = WorkArea(work_root(), f"cli/check/{spec.name}/{secrets.token_hex(4)}")
    with removed_after(work):
        try:
            with _counts_hidden(spec, rules):
                table = source_table(read, rules.release_id, read.data_schema(), work, policy=policy)
        except SchemaError as error:
            text = str(error)
            if rules.curator and not isinstance(error, MissingSourceError):
                with usage("PRIVACY_CURATOR"):
                    file = write_missing_values(read, rules.release_id, work)
                text += f"; the missing values: {file}" if file else ""
            path = ("source", "uri") if isinstance(error, MissingSourceError) else ("schema",)
            raise ProblemsError([Problem(text=text, path=path)]) from None
        except InfeasibleError as error:  # too few people to hold out
            raise ProblemsError([Problem(text=f"policy: {error}", path=("policy",))]) from None
        _check_types(spec, table)
        cost = _cost(spec, policy, table, work, rules) if rules.cost else None
        return _Source(cost=cost, left_out=left_out_of(table.source))


def _counts_hidden(spec: "ReleaseSpec", rules: _Rules) -> AbstractContextManager[None]:
    """Raise what the block finds in the records without counts, if a budget pays for the release."""
    from privacy_release.steps.counts import counts_hidden

    return counts_hidden(spec.name, rules.release_id, is_paid=spec.budget is not None)


def _check_types(spec: "ReleaseSpec", table: "Table") -> None:
    """Compare the types of the source with those of the release table, if a lake is configured."""
    from privacy_engine.errors import Problem, ProblemsError, SchemaError
    from privacy_release.steps.types import check_types_of

    try:
        lake = lake_at(default_lake())
    except WrongArgumentError:
        return
    try:
        check_types_of(spec, table, lake.table(spec.publish.table))
    except SchemaError as error:
        raise ProblemsError([Problem(text=str(error), path=("schema",))]) from None


def _cost(
    spec: "ReleaseSpec", policy: "ReleasePolicy", table: "Table", work: "WorkArea", rules: _Rules
) -> "Cost | str":
    """Return the cost of a run, or why it is not known. A failing method is a problem."""
    from privacy_engine.errors import PrivacyEngineError, Problem, ProblemsError, SpecError
    from privacy_release.explore.cost import cost_of

    try:
        with _counts_hidden(spec, rules):
            return cost_of(spec, policy, table, work)
    except SpecError as error:
        return str(error)
    except PrivacyEngineError as error:
        raise ProblemsError([Problem(text=f"release: {error}", path=("release",))]) from None


def _check_suites(spec: "ReleaseSpec") -> None:
    from privacy_engine.errors import Problem, ProblemsError, SpecError
    from privacy_release.spec.files import load_suite
    from privacy_release.spec.lines import located
    from privacy_release.steps.validate import check_suite

    given: dict[tuple[str, ...], Any] = {("expectations",): spec.suite_given}
    given |= {("tables", name, "expectations"): own.suite_given for name, own in (spec.tables or {}).items()}
    for path, suite in given.items():
        if suite is None:
            continue
        try:
            check_suite(load_suite(suite))
        except SpecError as error:
            if isinstance(suite, str):
                raise located(Path(suite), error) from None
            raise ProblemsError([Problem(text=str(error), path=(*path, "checkpoint"))]) from None


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
