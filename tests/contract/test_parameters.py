"""Every parameter of every method and detector: a wrong one is refused by its name, at construction."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from privacy_engine.registry import (
    detector_class,
    detector_names,
    load_detector,
    load_method,
    method_class,
    method_names,
)

NAN, INFINITE = float("nan"), float("inf")
NO_NUMBER = ["x", "", b"x", [1], [], {"a": 1}, {}, [[]], [None], NAN, INFINITE, -INFINITE, 10**400]
# What no parameter of a type can be. None is added where the type does not allow it.
WRONG: dict[Any, list[Any]] = {
    int: [*NO_NUMBER, True, 1.5, -(2**70)],
    float: [*NO_NUMBER, True],
    bool: ["x", "", b"x", 0, 1, 1.5, [], {}, NAN],
    str: [b"x", 0, 1.5, True, [], {}, ["x"]],
}
MODELS = ["x", 1, True, {}, ["t_closeness"], [None], [[]], [{"model": "t_closeness"}], [{"model": "x"}], [{}]]


def wrong_values(hint: Any) -> list[Any]:
    kinds = get_args(hint) if type(None) in get_args(hint) else (hint,)
    some = [value for kind in kinds for value in WRONG.get(kind, [])]
    return some if type(None) in kinds else [*some, None]


def parameters() -> Iterator[Any]:
    for names, cls_of, load in (
        (method_names(), method_class, load_method),
        (detector_names(), detector_class, load_detector),
    ):
        for name in names:
            cls = cls_of(name)
            hints = get_type_hints(cls)
            for field in dataclasses.fields(cls):
                yield pytest.param(load, name, field.name, hints[field.name], id=f"{name}-{field.name}")


@pytest.mark.parametrize(("load", "name", "parameter", "hint"), list(parameters()))
def test_a_wrong_parameter_is_refused_by_its_name(
    load: Callable[..., Any], name: str, parameter: str, hint: Any
) -> None:
    for value in MODELS if parameter == "require" else wrong_values(hint):
        with pytest.raises(ValueError, match=parameter) as caught:
            load(name, **{parameter: value})
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("name", ["mondrian", "bottom_up", "obpa", "rfka"])
def test_a_model_that_misses_its_number_is_named_by_its_place(name: str) -> None:
    models = [{"model": "k_anonymity", "k": 5}, {"model": "t_closeness"}]
    with pytest.raises(ValueError, match=r"require\[1\]: model t_closeness: missing .*'t'"):
        load_method(name, require=models)


def test_numbers_of_numpy_are_numbers() -> None:
    assert load_method("mondrian", k=np.int64(7), suppression_limit=np.float64(0.1)).k == 7
