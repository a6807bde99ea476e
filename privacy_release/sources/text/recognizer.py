"""A recognizer of the deployment, such as presidio or its own model, beside the patterns of this package.

The option `text_recognizer` names it, as `package.module:function`. Only the deployment's owner sets
options; a release file cannot name code. What it finds adds to what the patterns find, and removes nothing.
"""

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from privacy_engine.errors import SpecError
from privacy_release.config.settings import VARIABLES, setting

OPTION = "text_recognizer"
UNNAMED = "recognized"  # the kind of a finding whose name may be a part of the text
# Texts, each distinct one once, in any order -> for each text the kinds of identifiers in it.
Recognizer = Callable[[Sequence[str]], Sequence[Collection[str]]]
_FORM = re.compile(r"[a-z][a-z0-9_]{0,39}")


def has_recognizer() -> bool:
    """Whether the deployment names a recognizer."""
    return setting(OPTION) is not None


def recognized(texts: Sequence[str]) -> list[frozenset[str]]:
    """The kinds that the recognizer of the deployment finds in each of some texts; none without one.

    Raises:
        SpecError: if it cannot be loaded, fails, or does not answer with kinds for each text. Its own message
            is withheld, since it may quote a text.
    """
    name = setting(OPTION)
    if name is None or not texts:
        return [frozenset()] * len(texts)
    try:
        answers: Any = list(loaded(name)(texts))
    except SpecError:
        raise
    except Exception as error:  # noqa: BLE001  its message may quote a text
        raise _refused(name, f"failed with {type(error).__name__}") from None
    if len(answers) != len(texts):
        raise _refused(name, f"gave {len(answers):,} answers for {len(texts):,} texts")
    if any(isinstance(kinds, str) or not isinstance(kinds, Collection) for kinds in answers):
        raise _refused(name, "gave an answer that is no collection of kinds")
    return [
        frozenset(_shown(kind, text) for kind in kinds) for kinds, text in zip(answers, texts, strict=True)
    ]


@cache
def loaded(name: str) -> Recognizer:
    """The recognizer of that name.

    Args:
        name: `package.module:function`.

    Raises:
        SpecError: if there is no such function.
    """
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except Exception as error:  # noqa: BLE001  whatever a module of others raises as it is loaded
        raise _refused(name, f"cannot be loaded ({type(error).__name__})") from None
    if not callable(found):
        raise _refused(name, "is no function")
    return found  # type: ignore[no-any-return]  # what it answers is checked at each call


def _refused(name: str, fault: str) -> SpecError:
    return SpecError(
        f"the option {OPTION} (${VARIABLES[OPTION]}) must name a function, as package.module:function, that "
        f"takes texts and gives the kinds found in each; {name} {fault}: correct it, or remove the option"
    )


def _shown(kind: object, text: str) -> str:
    """The name of a kind as errors show it, unless it may be a part of the text itself."""
    name = str(kind).lower() if isinstance(kind, str) else ""
    letters = re.sub(r"[\W_]", "", name)
    within = letters in re.sub(r"[\W_]", "", text.lower())
    return UNNAMED if within or not _FORM.fullmatch(name) else name
