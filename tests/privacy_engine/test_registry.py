"""The registry: methods by name, and errors that name what is known."""

import pytest

from privacy_engine.registry import METHODS, load_method, method_class, method_names


@pytest.mark.parametrize("name", method_names())
def test_a_name_leads_to_the_class_that_carries_it(name: str) -> None:
    assert method_class(name).key == name
    assert isinstance(load_method(name), method_class(name))


def test_names_are_the_snake_case_of_the_classes() -> None:
    classes = [entry.home.rpartition(":")[2] for entry in METHODS.values()]
    assert [name.replace("_", "") for name in METHODS] == [cls.lower() for cls in classes]


@pytest.mark.parametrize("name", ["mondrain", "", "Mondrian", "privacy_engine.anonymizers.mondrian:Mondrian"])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"method must be one of \['mondrian', .*\], got"):
        load_method(name)


def test_an_unknown_parameter_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"mondrian: unknown parameters \['kk', 'x'\]; known are \['k', "):
        load_method("mondrian", x=1, k=3, kk=2)
