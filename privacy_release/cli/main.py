"""The command `privacy-release`: the work of the DAGs without Airflow.

Exit codes: 0 done, or skipped because the source has not arrived (`when_missing: skip`); 1 refused, because
the release does not meet its policy, its guarantees cannot be met, bytes changed on the way, or the privacy
budget is too small; 2 a wrong argument, file or table, or a lake or ledger that cannot be reached; 128 plus
the number of the signal that ended it, after it has cleaned up.
"""

import argparse
import json
import os
import secrets
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import (
    BudgetExceededError,
    InfeasibleError,
    IntegrityError,
    PrivacyEngineError,
    SkippedError,
    VerificationError,
)
from privacy_engine.foreign import is_panic, translated
from privacy_engine.progress import reporting_to
from privacy_engine.vocabulary import counted
from privacy_release.cli.areas import (
    StoppedError,
    add_clean_command,
    clean,
    removed_after,
    stoppable,
    sweep_before,
)
from privacy_release.cli.arguments import (
    WrongArgumentError,
    default_lake,
    lake_at,
    released_schema,
    table_of,
    usage,
    work_root,
)
from privacy_release.cli.budget import add_budget_commands
from privacy_release.cli.check import add_check_command
from privacy_release.cli.evidence import (
    add_evidence_commands,
    add_register_command,
    add_registry_command,
)
from privacy_release.cli.explore import add_explore_command
from privacy_release.cli.hierarchy import add_hierarchy_commands
from privacy_release.cli.key import add_key_commands
from privacy_release.cli.learning import add_reconstruct_command
from privacy_release.cli.query import add_query_command
from privacy_release.cli.table import add_table_command
from privacy_release.cli.text import (
    bars,
    earlier_lines,
    finding_lines,
    lines,
    manifest_lines,
    outcome_lines,
    release_line,
)
from privacy_release.cli.warm import add_warm_command
from privacy_release.cli.where import add_where_command, where
from privacy_release.config.settings import let_idle_threads_sleep
from privacy_release.spec.presets import PRESETS

if TYPE_CHECKING:
    from privacy_engine.engines.local import LocalEngine
    from privacy_release.sources.addresses import Source

DONE, REFUSED, WRONG = 0, 1, 2
_REFUSALS = (VerificationError, InfeasibleError, IntegrityError, BudgetExceededError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. An error is one line on stderr."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    let_idle_threads_sleep()
    try:
        with stoppable():
            if arguments.command not in (clean, where):
                sweep_before()
            with reporting_to(lines()):
                code: int = arguments.command(arguments)
    except SkippedError as error:
        print(f"{parser.prog}: nothing was published: {error}", file=sys.stderr)
        return DONE
    except PrivacyEngineError as error:
        print(f"{parser.prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return REFUSED if isinstance(error, _REFUSALS) else WRONG
    except KeyboardInterrupt as stopped:
        print(
            f"{parser.prog}: interrupted; a release is published only if `inspect` lists it", file=sys.stderr
        )
        return 128 + (stopped.number if isinstance(stopped, StoppedError) else signal.SIGINT)
    except BaseException as error:
        if arguments.debug or not (isinstance(error, Exception) or is_panic(error)):
            raise
        # The message of another library may quote records.
        text = translated(error, "the command") or (
            f"unexpected {type(error).__name__}; "
            "run it with --debug, in a place that may see records, for details"
        )
        print(f"{parser.prog}: {text}", file=sys.stderr)
        return WRONG
    return code


@cache
def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and their arguments."""
    parser = argparse.ArgumentParser(
        prog="privacy-release",
        description="Publish tables about people safely, or inspect what was published.",
        epilog="Exit codes: 0 done; 1 refused by policy, verification or budget; "
        "2 wrong argument, file, lake or ledger; 128 + N ended by signal N.",
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    run = _command(commands, "run", "make, verify and publish a release", _run)
    run.add_argument("spec", type=Path, metavar="SPEC", help="YAML file as in include/releases")
    run.add_argument(
        "--lake", metavar="DIR", help="folder or address; default $PRIVACY_LAKE, else lake in $AIRFLOW_HOME"
    )
    run.add_argument(
        "--release-id", metavar="ID", help="name of the release in its table; default: the time, UTC"
    )
    run.add_argument(
        "--approved-by",
        metavar="NAME",
        help="name of the person who approves the release; required if the SPEC requires an approval",
    )
    run.add_argument(
        "--history-lake",
        metavar="DIR",
        help="folder or address of the superseded releases; required if the SPEC keeps them",
    )
    run.add_argument(
        "--keep-work",
        action="store_true",
        help="keep the work area, which contains raw records; remove it by hand, or with `clean --kept`",
    )

    verify = _command(commands, "verify", "verify a released table against a policy", _verify)
    verify.add_argument("table", metavar="TABLE", help="Parquet file, folder or glob of the released records")
    verify.add_argument(
        "--policy", type=Path, required=True, metavar="FILE", help="YAML file as in include/policies"
    )
    verify.add_argument(
        "--schema",
        type=Path,
        required=True,
        metavar="FILE",
        help="schema of the released columns, or a release's SPEC",
    )
    verify.add_argument(
        "--manifest",
        type=Path,
        metavar="FILE",
        help="manifest of the release, for limits on loss that no table shows (max_gcp, max_epsilon, ...)",
    )

    add_check_command(
        _command(commands, "check", "check specifications before they run, or a published table", None)
    )
    add_explore_command(
        _command(commands, "explore", "measure methods and parameters before any release", None)
    )
    key = _command(commands, "key", "make and show the keys that sign releases", None)
    add_key_commands(key.add_subparsers(title="commands", metavar="COMMAND", required=True))

    hierarchy = _command(commands, "hierarchy", "draft, check and draw generalization hierarchies", None)
    add_hierarchy_commands(hierarchy.add_subparsers(title="commands", metavar="COMMAND", required=True))

    inspect = _command(commands, "inspect", "list the releases of a table, or show one", _inspect)
    inspect.add_argument("target", metavar="LAKE/TABLE", help="table of a lake, or a manifest file")
    inspect.add_argument("release", nargs="?", metavar="RELEASE", help="show the manifest of this release")

    retract = _command(commands, "retract", "retract a release: erase its rows and reports", _retract)
    retract.add_argument("target", metavar="LAKE/TABLE", help="table of a lake")
    retract.add_argument("release", metavar="RELEASE", help="ID of the release")
    retract.add_argument(
        "--reason", required=True, help="reason; stored forever, so it must not name a person"
    )
    retract.add_argument(
        "--history-lake", metavar="DIR", help="lake of the table's history; default: the one that it names"
    )

    schema = _command(commands, "schema", "draft a specification, or print its JSON Schema", None)
    kinds = schema.add_subparsers(title="commands", metavar="COMMAND", required=True)
    infer = _command(
        kinds, "infer", "draft a specification from a table, to be completed by a person", _infer
    )
    infer.add_argument(
        "table",
        metavar="TABLE",
        help="Parquet file, folder or glob; CSV file, which is first written to a Parquet file next to it; "
        "folder of a table; or a SELECT",
    )
    infer.add_argument(
        "--format", choices=("parquet", "delta", "iceberg"), default="parquet", help="format of TABLE"
    )
    infer.add_argument(
        "--connection",
        metavar="NAME",
        help="TABLE is a SELECT for the database at $PRIVACY_SOURCE_<NAME>",
    )
    infer.add_argument(
        "--min-count",
        type=int,
        default=10,
        metavar="N",
        help="show a category if N records have it (default 10)",
    )
    infer.add_argument(
        "--preset", choices=sorted(PRESETS), metavar="PACK", help=f"rule pack to meet: {', '.join(PRESETS)}"
    )
    _command(kinds, "json", "print the JSON Schema of a specification, for editors", _json_schema)

    add_query_command(_command(commands, "query", "query published releases in SQL", None))

    add_reconstruct_command(
        _command(commands, "reconstruct", "estimate shares and means from a randomized release", None)
    )

    add_table_command(_command(commands, "table", "show or change which releases a table keeps", None))
    add_register_command(_command(commands, "register", "register a release table in a Unity Catalog", None))

    add_registry_command(
        _command(
            commands, "registry", "write a private release as a record of the DP deployments registry", None
        )
    )

    evidence = _command(commands, "evidence", "write or check the signed evidence of a release", None)
    add_evidence_commands(evidence.add_subparsers(title="commands", metavar="COMMAND", required=True))

    budget = _command(commands, "budget", "grant privacy budgets, and show what is spent", None)
    add_budget_commands(budget.add_subparsers(title="commands", metavar="COMMAND", required=True))

    add_clean_command(_command(commands, "clean", "remove the work areas that killed commands left", None))

    add_where_command(_command(commands, "where", "show which lake, ledger and files are used", None))

    add_warm_command(_command(commands, "warm", "compile the functions of releases in advance", None))

    _command(
        commands, "list-methods", "list the release methods, their parameters and guarantees", _list_methods
    )
    return parser


def _command(commands: Any, name: str, text: str, function: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}."
    )
    if function is not None:
        parser.set_defaults(command=function)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from privacy_release.lake.log import check_text
    from privacy_release.proof.statement import signer_of_settings
    from privacy_release.running.run import run_release
    from privacy_release.spec.model import load_spec
    from privacy_release.steps.approval import plain_comment
    from privacy_release.workarea.area import WorkArea

    spec = load_spec(arguments.spec)
    lake = lake_at(arguments.lake or default_lake())
    history = lake_at(arguments.history_lake, "--history-lake") if arguments.history_lake else None
    release_id = arguments.release_id or datetime.now(UTC).strftime("cli__%Y-%m-%dT%H:%M:%S.%fZ")
    with usage("--release-id"):
        check_text("release id", release_id)
    approved_by, signer = plain_comment(arguments.approved_by) or None, signer_of_settings()
    work = WorkArea(work_root(), f"cli/{spec.name}/{release_id}/{_token()}")
    with removed_after(work, keep=arguments.keep_work), bars() as watch:
        outcome = run_release(
            spec, lake, release_id, work, watch, approved_by=approved_by, signer=signer, history=history
        )
    print("\n".join(outcome_lines(outcome)))
    return DONE


def _verify(arguments: argparse.Namespace) -> int:
    import pyarrow.parquet as pq

    from privacy_engine.engines.checking import verify_files
    from privacy_engine.measures.recoding import as_released
    from privacy_release.manifest.manifest import Manifest
    from privacy_release.sources.addresses import find_source
    from privacy_release.sources.files import local_files
    from privacy_release.spec.files import load_policy
    from privacy_release.spec.floor import floor_policy, under_floor
    from privacy_release.spec.reading import LARGEST_MANIFEST, read_mapping
    from privacy_release.steps.verify import require_no_counterfeits, text_findings

    policy = under_floor(load_policy(arguments.policy.absolute()), floor_policy())
    today = datetime.now(UTC).date()
    schema = released_schema(arguments.schema.absolute()).as_of(today).coded()
    given = read_mapping(arguments.manifest.absolute(), LARGEST_MANIFEST) if arguments.manifest else {}
    manifest = Manifest.from_dict(given)
    source = find_source(arguments.table)
    loss = manifest.loss.claimed if manifest.loss else None
    with _engine("verify") as (engine, folder):
        files = local_files(source, folder)
        require_no_counterfeits(files)
        schema = as_released(schema, pq.read_schema(files[0]).names)
        report = verify_files(
            engine,
            files,
            schema,
            policy,
            loss=loss,
            figures=manifest.figures,
            year=today.year,
        )
        report = replace(report, findings=(*report.findings, *text_findings(files, schema, policy)))
    print(f"{counted(report.rows, 'row')} in {counted(report.classes, 'class', 'classes')}")
    found = report.to_dict()["findings"]
    print("\n".join([*finding_lines(found), *earlier_lines(found, followed=False)]))
    report.raise_if_failed()
    return DONE


def _inspect(arguments: argparse.Namespace) -> int:
    from privacy_release.lake.read import manifest_of, pages_of, releases
    from privacy_release.spec.reading import LARGEST_MANIFEST, read_mapping

    if Path(arguments.target).is_file():
        print("\n".join(manifest_lines(read_mapping(Path(arguments.target), LARGEST_MANIFEST))))
        return DONE
    table = table_of(arguments.target)
    if arguments.release is not None:
        pages = pages_of(table, arguments.release)
        lines = [f"{kind:<10}  {uri}" for kind, uri in pages.items()]
        print("\n".join([*lines, *manifest_lines(manifest_of(table, arguments.release))]))
        return DONE
    found = releases(table)
    if not found:
        raise WrongArgumentError(
            f"{table.lake.root} must have a table {table.name} with releases, found none; correct LAKE/TABLE"
        )
    print("\n".join(map(release_line, found)))
    return DONE


def _retract(arguments: argparse.Namespace) -> int:
    from privacy_release.proof.statement import signer_of_settings
    from privacy_release.steps.retraction import retract_release

    table = table_of(arguments.target)
    history = lake_at(arguments.history_lake, "--history-lake") if arguments.history_lake else None
    with usage("RELEASE or --reason"):
        done = retract_release(
            table,
            arguments.release,
            arguments.reason,
            history=history,
            signer=signer_of_settings(),
        )
    print(
        f"{arguments.release} {'was' if done.already else 'is'} retracted from "
        f"{table.lake.root}/{table.name}; {counted(done.files_removed, 'file')} erased"
    )
    return DONE


def _infer(arguments: argparse.Namespace) -> int:
    from privacy_release.sources.csv_files import converted, is_csv
    from privacy_release.sources.files import local_files
    from privacy_release.sources.text.scan import found_in_files
    from privacy_release.spec.draft import check_least, draft_name, draft_spec

    with usage("--min-count"):
        check_least(arguments.min_count)
    if arguments.format == "parquet" and not arguments.connection and is_csv(Path(arguments.table)):
        arguments.table = str(converted(Path(arguments.table)))
        print(
            f"wrote {arguments.table}: releases read this file, with types that follow from the values",
            file=sys.stderr,
        )
    uri = arguments.table if "://" in arguments.table else str(Path(arguments.table).absolute())
    fields = {"uri": uri} if arguments.format == "parquet" else {"uri": uri, "format": arguments.format}
    name = draft_name(arguments.table)
    if arguments.connection:
        fields = {"connection": arguments.connection, "sql": arguments.table}
        name = draft_name(f"query of {arguments.connection}")
    with _engine("infer") as (engine, folder), _inferred(arguments, uri, folder) as source:
        files = local_files(source, folder)
        found = found_in_files(files)
        preset = PRESETS[arguments.preset] if arguments.preset else None
        text = draft_spec(
            engine, files, uri, name, source=fields, least=arguments.min_count, found=found, preset=preset
        )
    print(text, end="")
    return DONE


@contextmanager
def _inferred(arguments: argparse.Namespace, uri: str, folder: Path) -> "Iterator[Source]":
    """Provide the files for a draft. For a query or a table, a copy that exists only in the block."""
    from privacy_release.sources.addresses import find_source
    from privacy_release.sources.databases.query import Query, url_of_environment
    from privacy_release.sources.extracts import Extract, extracted
    from privacy_release.sources.versions import version_of
    from privacy_release.spec.placeholders import ReleaseName

    if arguments.format == "parquet" and not arguments.connection:
        yield find_source(arguments.table)
        return
    extract: Extract
    if arguments.connection:
        sql, values = ReleaseName.of("draft").bound(arguments.table)
        url = url_of_environment(arguments.connection)
        extract = Query(connection=arguments.connection, url=url, sql=sql, values=values)
    else:
        extract = version_of(arguments.format, uri, None, None)
    with extracted(extract, None, None, folder) as found:
        yield found.source


def _token() -> str:
    """Return a token of this process, unique also among hosts that share the folder."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


@contextmanager
def _engine(command: str) -> "Iterator[tuple[LocalEngine, Path]]":
    """Provide an engine for tables larger than memory, and a private folder, until the block ends."""
    from privacy_engine.engines.local import LocalEngine
    from privacy_release.workarea.area import WorkArea
    from privacy_release.workarea.engines import DEFAULT_MEMORY, read_memory

    work = WorkArea(work_root(), f"cli/{command}/{_token()}")
    with (
        removed_after(work),
        LocalEngine(memory=read_memory(DEFAULT_MEMORY), spill=work.folder) as engine,
    ):
        yield engine, work.folder


def _json_schema(arguments: argparse.Namespace) -> int:
    from privacy_release.spec.model import json_schema

    print(json.dumps(json_schema(), indent=2))
    return DONE


def _list_methods(arguments: argparse.Namespace) -> int:
    from privacy_release.spec.methods import described_methods

    print(described_methods(), end="")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
