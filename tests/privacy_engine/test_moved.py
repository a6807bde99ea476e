"""Former names of modules."""

import importlib
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress

import pytest

import privacy_release
from privacy_engine.moved import renamed
from tests.import_graph import modules

FORMER = {
    "privacy_engine.judge.models": "privacy_engine.verification.models",
    "privacy_engine.judge.verification": "privacy_engine.verification.verify",
    "privacy_engine.grouping.cuts": "privacy_engine.recoding.grouping.cuts",
    "privacy_engine.latent.latent_class": "privacy_engine.synthesizers.latent.latent_class",
    "privacy_engine.synthesizers.privbayes": "privacy_engine.synthesizers.bayes.privbayes",
    "privacy_release.work.area": "privacy_release.workarea.area",
    "privacy_release.work.settings": "privacy_release.config.settings",
    "privacy_release.spending.budget": "privacy_release.budget.budget",
    "privacy_release.steps.run": "privacy_release.running.run",
}


@pytest.mark.parametrize(("former", "present"), FORMER.items())
def test_a_module_can_be_imported_by_its_former_name_with_a_warning(
    former: str, present: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(present)
    monkeypatch.delitem(sys.modules, former, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{former} is now {present}; .* ends with version 0.3"):
        found = importlib.import_module(former)
    assert found is module
    assert module.__spec__ is not None
    assert (module.__name__, module.__spec__.name) == (present, present)


def test_the_packages_themselves_use_no_former_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        for name in ("privacy_engine.registry", "privacy_release.running.run"):
            importlib.import_module(name)
    assert not set(FORMER) & set(modules())


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"privacy_engine\.judgement"):
        importlib.import_module("privacy_engine.judgement")


@renamed("tell", "on_progress")
def work(rows: int, on_progress: str = "") -> tuple[int, str]:
    return rows, on_progress


def test_an_argument_can_be_passed_by_its_former_keyword_with_a_warning() -> None:
    with pytest.warns(
        DeprecationWarning, match="argument tell of work is now on_progress.* with version 0.3"
    ):
        assert work(1, tell="a") == (1, "a")  # type: ignore[call-arg]


def test_an_argument_with_its_present_keyword_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        assert work(1, on_progress="a") == work(1, "a") == (1, "a")


def test_an_argument_cannot_be_passed_by_both_keywords() -> None:
    with (
        pytest.warns(DeprecationWarning, match="is now on_progress"),
        pytest.raises(TypeError, match="work got both on_progress and tell"),
    ):
        work(1, on_progress="a", tell="b")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("function", "former"),
    [
        (privacy_release.make_release, "progress"),
        (privacy_release.validate, "tell"),
        (privacy_release.BudgetLedger.check, "tell"),
    ],
)
def test_public_functions_accept_their_former_keywords(function: Callable[..., object], former: str) -> None:
    with (
        pytest.warns(DeprecationWarning, match=rf"the argument {former} of {function.__name__} "),
        suppress(TypeError),
    ):
        function(**{former: print})
