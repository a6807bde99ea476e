"""Check a specification and all that it names: rules, lake and ledger first, then its source."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from privacy_engine.errors import PrivacyEngineError, Problem, ProblemsError, SpecError
from privacy_engine.registry import is_anonymizer, is_randomizer, kind_of
from privacy_engine.tables.domains import coarse_scales
from privacy_engine.vocabulary import ReleaseKind
from privacy_release.budget.schedules import schedule_named
from privacy_release.checking.rules import CheckResult, CheckRules
from privacy_release.config.problems import gathered, raise_problems
from privacy_release.ledger import default as ledgers
from privacy_release.reports.text import promise_in_words
from privacy_release.spec.catalogue import only_of_its_name
from privacy_release.spec.check import files_of, learned, method_of, policy_of, schema_of, sources_of
from privacy_release.spec.files import load_suite
from privacy_release.spec.lines import located
from privacy_release.spec.methods import build_method
from privacy_release.spec.model import load_spec
from privacy_release.spec.rules.facts import UNKNOWN, Facts
from privacy_release.spec.rules.judge import Judged, judged
from privacy_release.steps.facts import asks_for_earlier, budget_of, with_lake, with_ledger
from privacy_release.steps.validate import check_suite

if TYPE_CHECKING:
    from privacy_engine.synthesizers.synthesizer import Synthesizer
    from privacy_release.checking.source import CheckedSource
    from privacy_release.spec.model import ReleaseSpec

# Words for unknown facts. Others become known later, or their lack is a problem itself.
_UNJUDGED = {"users": "users", "signed": "signature", "earlier": "lake", "shortage": "ledger"}


def check_specification(path: Path, rules: CheckRules) -> CheckResult:
    """Return all that can be known about a release before its method runs, by file and line.

    Args:
        path: Absolute path of the specification.
        rules: Rules and resources of the check.
    """
    try:
        spec, found = _without_records(path, rules)
        source = None if rules.source is False else _of_source(spec, rules)
        return CheckResult(
            for_now=found.for_now,
            unjudged=_unjudged(found),
            read=source is not None or rules.source is not None,
            promise=_promise(spec),
            cost=None if source is None else source.cost,
            left_out=() if source is None else source.left_out,
            warnings=_warnings(spec),
        )
    except PrivacyEngineError as error:
        return CheckResult(list(dict.fromkeys(located(path, error).problems)))
    except Exception as error:  # noqa: BLE001  the other files are checked; its message may quote records
        return CheckResult(
            [Problem(text=f"cannot be used, unexpected {type(error).__name__}", file=str(path))]
        )


def _of_source(spec: "ReleaseSpec", rules: CheckRules) -> "CheckedSource | None":
    from privacy_release.checking.source import check_source  # loads all that a release reads with

    return check_source(spec, rules)


def _warnings(spec: "ReleaseSpec") -> list[str]:
    """Return what will make a private release less useful than it could be, by the file alone."""
    method = spec.release.method
    if kind_of(method) is ReleaseKind.STRUCTURE or is_anonymizer(method):
        return []
    schema = spec.method_schema()
    if is_randomizer(method):
        return coarse_scales(schema, linear=True)
    has_schedule = spec.budget is not None and spec.budget.schedule is not None
    synthesizer = cast("Synthesizer", build_method(method, spec.release.parameters))
    return coarse_scales(schema) + ([] if has_schedule else synthesizer.noise_warnings(schema))


def _unjudged(found: Judged) -> list[str]:
    unknown = {name for missing in found.unjudged.values() for name in missing}
    return [word for name, word in _UNJUDGED.items() if name in unknown]


def _without_records(path: Path, rules: CheckRules) -> "tuple[ReleaseSpec, Judged]":
    """Check what can be known without records."""
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
    whole = judged(_with_ledger(facts, spec, rules))  # last, so that an unreachable ledger hides no mistake
    raise_problems(whole.problems)
    return spec, whole


def _known_users(spec: "ReleaseSpec", rules: CheckRules) -> Any:
    """Return the users who may approve. Not needed if the file names none."""
    if rules.users is not None or not (spec.approval and spec.approval.assigned_to):
        return rules.users or frozenset()
    return UNKNOWN


def _with_lake(facts: Facts, spec: "ReleaseSpec", rules: CheckRules) -> Facts:
    """Add the facts from the lake, if there is one, and the promise of the schedule."""
    schedule = None if spec.budget is None else spec.budget.schedule
    promise = None if schedule is None else schedule_named(spec.name, schedule).promise
    facts = replace(facts, promise_for=promise)
    if not asks_for_earlier(facts):
        return replace(facts, earlier=None, unjudged=0)
    lake = rules.lake()
    return facts if lake is None else with_lake(facts, spec, lake.table(spec.publish.table), rules.release_id)


def _with_ledger(facts: Facts, spec: "ReleaseSpec", rules: CheckRules) -> Facts:
    """Add the facts from the ledger, if there is one."""
    if spec.budget is None:
        return with_ledger(facts, None)
    ledger = ledgers.ledger_at(ledgers.default_place())
    if ledger.is_file and not Path(ledger.place).exists():  # reading it would create it
        return facts
    lake = rules.lake()
    table = None if lake is None else lake.table(spec.publish.table)
    return with_ledger(facts, budget_of(spec, f"{spec.name}/{rules.release_id}", ledger), table)


def _promise(spec: "ReleaseSpec") -> str | None:
    """Return the total loss of its schedule's releases in words. None if each is paid separately."""
    schedule = None if spec.budget is None else spec.budget.schedule
    if schedule is None:
        return None
    loss = build_method(spec.release.method, spec.release.parameters).privacy_loss(spec.method_schema())
    assert loss is not None  # a budget requires a method that spends
    return promise_in_words(schedule_named(spec.name, schedule).to_dict(loss))


def _check_suites(spec: "ReleaseSpec") -> None:
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
