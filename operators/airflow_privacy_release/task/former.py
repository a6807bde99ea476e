"""Former names of operators' arguments, which are accepted until version 0.3 with a warning."""

import warnings
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Final, TypeVar, cast

from privacy_engine.errors import SpecError

F = TypeVar("F", bound=Callable[..., None])

# The default of an argument under its former name, which no documentation lists.
FORMER: Final = object()


def formerly(**names: str) -> Callable[[F], F]:
    """Let the `__init__` of an operator accept arguments by their former names.

    Args:
        names: Present name of each argument, by its former name.
    """

    def accepting(function: F) -> F:
        @wraps(function)
        def renamed(self: Any, **given: Any) -> None:
            for former, name in names.items():
                if former in given:
                    _require_one(given, former, name)
                    text = f"{former} is called {name}; rename it, because the former name ends with 0.3"
                    warnings.warn(text, DeprecationWarning, stacklevel=3)
                    given[name] = given.pop(former)
            function(self, **given)

        # Airflow reads the names of arguments for `partial`, `expand` and `default_args` from the signature.
        own = signature(function)
        *named, rest = own.parameters.values()
        former_names = (Parameter(former, Parameter.KEYWORD_ONLY, default=FORMER) for former in names)
        vars(renamed)["__signature__"] = own.replace(parameters=[*named, *former_names, rest])
        return cast(F, renamed)

    return accepting


def _require_one(given: dict[str, Any], former: str, name: str) -> None:
    """Raise if an argument is given by both of its names."""
    if given.get(name) is not None:
        raise SpecError(f"{name} and {former} are the same argument; remove {former}, its former name")
