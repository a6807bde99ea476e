"""The deployment's own recognizer of identifiers, such as presidio, in addition to the package's patterns.

The option `text_recognizer` names it, as `package.module:function`. Only the deployment's owner sets
options; a release file cannot name code. Its findings are added to those of the patterns, and remove none.
"""

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from privacy_engine.errors import SpecError
from privacy_release.config.settings import VARIABLES, setting

OPTION = "text_recognizer"
UNNAMED = "recognized"  # shown kind of a finding whose own name may be part of the text
# Function from distinct texts, in any order, to the kinds of identifiers in each.
Recognizer = Callable[[Sequence[str]], Sequence[Collection[str]]]
_FORM = re.compile(r"[a-z][a-z0-9_]{0,39}")


def has_recognizer() -> bool:
    """Return whether the deployment names a recognizer."""
    return setting(OPTION) is not None


def recognized(texts: Sequence[str]) -> list[frozenset[str]]:
    """Return the kinds that the deployment's recognizer finds in each text. Empty without a recognizer.

    Raises:
        SpecError: If it cannot be loaded, fails, or does not return kinds for each text. Its own message is
            withheld, because it may quote a text.
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
    """Load a recognizer by its name.

    Args:
        name: Name as `package.module:function`.

    Raises:
        SpecError: If there is no such function.
    """
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except Exception as error:  # noqa: BLE001  loading foreign code may raise anything
        raise _refused(name, f"cannot be loaded ({type(error).__name__})") from None
    if not callable(found):
        raise _refused(name, "is no function")
    return found  # type: ignore[no-any-return]  # its answers are checked at each call


def _refused(name: str, fault: str) -> SpecError:
    return SpecError(
        f"the option {OPTION} (${VARIABLES[OPTION]}) must name a function, as package.module:function, that "
        f"takes texts and gives the kinds found in each; {name} {fault}: correct it, or remove the option"
    )


def _shown(kind: object, text: str) -> str:
    """Return the name of a kind for errors, unless it may be part of the text itself."""
    name = str(kind).lower() if isinstance(kind, str) else ""
    letters = re.sub(r"[\W_]", "", name)
    within = letters in re.sub(r"[\W_]", "", text.lower())
    return UNNAMED if within or not _FORM.fullmatch(name) else name
