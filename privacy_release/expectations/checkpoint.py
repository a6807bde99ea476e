"""A named Checkpoint of a Great Expectations file context: its suites and its actions, without cell values.

`Checkpoint.run` cannot be used, whatever its result format: it writes a hash over all records into each
result (`pandas_data_fingerprint`), from which anyone who knows all but one record could find the last one by
trying, and messages of exceptions, which may quote values. So the gate judges the suites in a context that
stores nothing, and what the named context stores, draws and sends is made only from the verdicts. It never
gets the table.
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from privacy_engine.choice import did_you_mean
from privacy_engine.errors import SpecError
from privacy_release.config.settings import setting
from privacy_release.expectations.gate import SuiteResult, quiet
from privacy_release.expectations.lean_import import import_great_expectations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from great_expectations.checkpoint.checkpoint import Checkpoint
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.core.validation_definition import ValidationDefinition
    from great_expectations.data_context.data_context.abstract_data_context import AbstractDataContext

CONTEXT_FILE = "great_expectations.yml"
_TABLE = "<DATAFRAME>"  # the notation of Great Expectations
_FORMAT = "BOOLEAN_ONLY"


def suites_of(folder: str, name: str) -> list[dict[str, Any]]:
    """Return the suites of a checkpoint for `run_suite`, in the order of its validations.

    They are returned as stored, including expectations that Great Expectations would drop.

    Args:
        folder: Folder of the context, with its `great_expectations.yml`.
        name: Name of the checkpoint.
    """
    with quiet():
        context, checkpoint = _opened(folder, name)
        return [_stored_suite(context, definition) for definition in checkpoint.validation_definitions]


def run_actions(
    folder: str, name: str, suites: Sequence[Mapping[str, Any]], found: Sequence[SuiteResult]
) -> list[str]:
    """Store a checkpoint's validation results and run its actions. Return the actions that failed.

    Args:
        folder: Folder of the context.
        name: Name of the checkpoint.
        suites: Suites from `suites_of`.
        found: Result of each suite, in their order.

    Returns:
        Each failed action with the type of its error. The message may contain an address or a token.
    """
    from great_expectations.checkpoint.actions import ActionContext, UpdateDataDocsAction
    from great_expectations.checkpoint.checkpoint import CheckpointResult
    from great_expectations.core.run_identifier import RunIdentifier

    failed: list[str] = []
    with quiet():
        context, checkpoint = _opened(folder, name)
        run = RunIdentifier(run_time=datetime.now(UTC))
        results = {}
        for definition, suite, result in zip(checkpoint.validation_definitions, suites, found, strict=True):
            key, outcome = _key(definition, run), _result(checkpoint, definition, suite, result, run)
            results[key] = outcome
            store = partial(
                context.validation_results_store.store_validation_results,
                suite_validation_result=outcome,
                suite_validation_result_identifier=key,
                expectation_suite_identifier=key.expectation_suite_identifier,
            )
            _attempt("the store of the results", store, failed)
        about = checkpoint.copy(update={"result_format": _FORMAT})
        whole = CheckpointResult(run_id=run, run_results=results, checkpoint_config=about)
        done = ActionContext()
        # Docs first, like Great Expectations does, because notifications link to them.
        for action in sorted(checkpoint.actions, key=lambda own: not isinstance(own, UpdateDataDocsAction)):
            action._data_context = context  # as a Checkpoint does
            act = partial(action.run, checkpoint_result=whole, action_context=done)
            answer = _attempt(f"action {action.name!r}", act, failed)
            if answer is not None:
                done.update(action=action, action_result=answer)
    return failed


def _attempt(what: str, deed: Callable[[], Any], failed: list[str]) -> Any:
    """Return the result of a call, or None and note its failure. Its output is dropped."""
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            return deed()
    except Exception as error:  # noqa: BLE001  the context's own stores and actions share no base
        failed.append(f"{what} ({type(error).__name__})")
        return None


def _opened(folder: str, name: str) -> tuple[AbstractDataContext, Checkpoint]:
    """Return a context and its checkpoint, which may be run here."""
    if not (Path(folder) / CONTEXT_FILE).is_file():
        raise SpecError(
            f"the Great Expectations context {folder} must be a folder with {CONTEXT_FILE}; correct the path"
        )
    _refuse_foreign(Path(folder))
    import_great_expectations()
    import great_expectations as gx
    from great_expectations.compatibility.pydantic import ValidationError
    from great_expectations.exceptions.exceptions import ValidationActionRegistryRetrievalError

    try:
        context = gx.get_context(mode="file", context_root_dir=folder)
        known = sorted(key.to_tuple()[0] for key in context.checkpoint_store.list_keys())
    except Exception as error:  # noqa: BLE001  its message may contain a token of the configuration
        raise SpecError(
            f"the Great Expectations context {folder} cannot be opened ({type(error).__name__}); correct its "
            f"{CONTEXT_FILE}"
        ) from None
    place = f"checkpoint {name!r} of {folder}"
    if name not in known:
        raise SpecError(f"{place} must exist{did_you_mean(name, known)}; the context has {known}")
    try:
        checkpoint = context.checkpoints.get(name)
    except ValidationActionRegistryRetrievalError as error:
        raise SpecError(
            f"{place} has an action that Great Expectations does not know ({error}); custom code is not "
            "run in this step: remove the action, and act on the result in a task behind it"
        ) from None
    except ValidationError as error:
        messages = "; ".join(problem["msg"] for problem in error.errors())
        raise SpecError(f"{place} cannot be loaded: {messages}; correct it in its context") from None
    except Exception as error:  # noqa: BLE001  its message may contain a token of the configuration
        raise SpecError(
            f"{place} cannot be loaded ({type(error).__name__}); correct it in its context"
        ) from None
    _refuse(place, checkpoint)
    return context, checkpoint


def _refuse_foreign(folder: Path) -> None:
    """Refuse a context that contains code, because opening it would import and run the code.

    A deployment that trusts the authors of its contexts can set the option `context_plugins` to `allow`.

    Raises:
        SpecError: Naming the context and its code.
    """
    if setting("context_plugins") == "allow":
        return
    file = folder / CONTEXT_FILE
    try:
        configuration = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise SpecError(f"{file} must be readable YAML, got {type(error).__name__}; correct it") from None
    remedy = "remove it, or have the deployment set the option context_plugins to `allow`"
    if foreign := sorted(
        {name for name in _modules(configuration) if name.partition(".")[0] != "great_expectations"}
    ):
        raise SpecError(
            f"{file} names code that is not Great Expectations' own, the modules {foreign}; {remedy}"
        )
    plugins = folder / str(configuration.get("plugins_directory") or "plugins")
    if next(plugins.rglob("*.py"), None) is not None:
        raise SpecError(f"the Great Expectations context {folder} contains code in {plugins}; {remedy}")


def _modules(configuration: Any) -> Iterator[str]:
    """Yield the modules that a configuration names."""
    if isinstance(configuration, dict):
        for name, item in configuration.items():
            if name == "module_name":
                yield str(item)
            yield from _modules(item)
    elif isinstance(configuration, list):
        for item in configuration:
            yield from _modules(item)


def _refuse(place: str, checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint that checks nothing, checks other data, or would run unreviewed code.

    Raises:
        SpecError: Naming the checkpoint, its part, and the remedy.
    """
    from great_expectations.datasource.fluent.pandas_datasource import DataFrameAsset

    if not checkpoint.validation_definitions:
        raise SpecError(f"{place} must have a validation definition, or nothing is checked; add one")
    for definition in checkpoint.validation_definitions:
        if not isinstance(definition.asset, DataFrameAsset):
            raise SpecError(
                f"{place}: validation {definition.name!r} is of {definition.asset.name!r} in the data source "
                f"{definition.data_source.name!r} of type {definition.data_source.type}, which is other data "
                "than the ingested table; give it the batch definition of a pandas data frame asset"
            )
    for action in checkpoint.actions:
        renderer = getattr(action, "renderer", None)
        for part in (action, *([] if renderer is None else [renderer])):
            module = type(part).__module__
            if module.partition(".")[0] != "great_expectations":
                raise SpecError(
                    f"{place}: action {action.name!r} runs {module}.{type(part).__name__}, which is not "
                    "Great Expectations' own: it is unknown what it reads in this step; remove it, and "
                    "act on the result in a task behind it"
                )


def _stored_suite(context: AbstractDataContext, definition: ValidationDefinition) -> dict[str, Any]:
    store, suite = context.expectations_store, definition.suite
    stored = store.get(store.get_key(name=suite.name, id=suite.id))
    return {
        "name": suite.name,
        "expectations": [entry.to_json_dict() for entry in stored["expectations"]],
    }


def _key(definition: ValidationDefinition, run: RunIdentifier) -> Any:
    """Return the key of a result in the store, like Great Expectations does."""
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    return ValidationResultIdentifier(
        expectation_suite_identifier=ExpectationSuiteIdentifier(name=definition.suite.name),
        run_id=run,
        batch_identifier=f"{definition.data_source.name}-{definition.asset.name}",
    )


def _result(
    checkpoint: Checkpoint,
    definition: ValidationDefinition,
    suite: Mapping[str, Any],
    found: SuiteResult,
    run: RunIdentifier,
) -> ExpectationSuiteValidationResult:
    """Return a result that states which expectations were met, and nothing about the table."""
    import great_expectations as gx
    from great_expectations.core import ExpectationSuiteValidationResult

    held, expected = found["passed"], found["expected"]
    return ExpectationSuiteValidationResult(
        success=held == expected,
        results=[_judged(*pair) for pair in zip(suite["expectations"], found["expectations"], strict=True)],
        suite_name=definition.suite.name,
        suite_parameters={},
        statistics={
            "evaluated_expectations": expected,
            "successful_expectations": held,
            "unsuccessful_expectations": expected - held,
            "success_percent": 100 * held / expected,
        },
        meta={
            "great_expectations_version": gx.__version__,
            "active_batch_definition": {
                "datasource_name": definition.data_source.name,
                "data_connector_name": "fluent",
                "data_asset_name": definition.asset.name,
                "batch_identifiers": {"dataframe": _TABLE},
            },
            "validation_id": definition.id,
            "checkpoint_id": checkpoint.id,
            "run_id": run,
            "validation_time": run.run_time,
            "batch_parameters": {"dataframe": _TABLE},
        },
        batch_id=f"{definition.data_source.name}-{definition.asset.name}",
    )


def _judged(entry: Mapping[str, Any], verdict: Mapping[str, Any]) -> ExpectationValidationResult:
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    broken = verdict["broken"]
    return ExpectationValidationResult(
        success=verdict["held"],
        expectation_config=ExpectationConfiguration(**entry),
        result={},
        exception_info={
            "raised_exception": broken is not None,
            "exception_message": broken,
            "exception_traceback": None if broken is None else "withheld, it may quote records",
        },
    )
