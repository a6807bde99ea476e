"""The drawing of a network: one dot a dependency, nothing on anything else, for 5 to 40 attributes."""

import numpy as np
import pytest

from privacy_release.reports.network import LANE, ROW, draw_network


def network(attributes: int, degree: int, seed: int) -> dict[str, list[str]]:
    rng = np.random.default_rng(seed)
    names = [f"attribute {i}" for i in range(attributes)]
    return {
        name: sorted(rng.choice(names[:i], min(i, int(rng.integers(0, degree + 1))), replace=False).tolist())
        for i, name in enumerate(names)
    }


@pytest.mark.parametrize("attributes", [1, 5, 16, 40])
@pytest.mark.parametrize("degree", [0, 1, 4])
def test_every_dependency_is_one_dot_on_the_lane_of_its_parent(attributes: int, degree: int) -> None:
    parents = network(attributes, degree, seed=attributes + degree)
    drawing = draw_network(parents)
    lanes = {}
    for row in drawing.rows:
        end = float(row.line.split("H")[1].split("V")[0]) if row.line else None
        if "V" in row.line:
            lanes[row.name] = end
        assert row.dots == tuple(sorted(lanes[p] for p in parents[row.name]))
        assert all(dot <= (end or 0) for dot in row.dots)
    assert len(set(lanes.values())) == len(lanes)
    assert drawing.dependencies == sum(map(len, parents.values()))


@pytest.mark.parametrize("attributes", [5, 40])
def test_rows_and_lanes_are_apart_and_inside_the_drawing(attributes: int) -> None:
    drawing = draw_network(network(attributes, 3, seed=1))
    heights = [row.y for row in drawing.rows]
    assert np.diff(heights).min() == ROW
    assert heights[-1] < drawing.height
    places = sorted({dot for row in drawing.rows for dot in row.dots})
    assert np.diff(places).min() >= LANE
    assert drawing.x < places[0]
    assert places[-1] < drawing.width


def test_a_lane_ends_at_the_last_child() -> None:
    drawing = draw_network({"a": [], "b": ["a"], "c": [], "d": ["a"], "e": ["b"]})
    ends = {row.name: row.line.partition("V")[2] for row in drawing.rows}
    assert ends == {"a": str(drawing.rows[3].y), "b": str(drawing.rows[4].y), "c": "", "d": "", "e": ""}


def test_long_names_are_cut_in_the_drawing_and_kept_beside_it() -> None:
    name = "a" * 60
    row = draw_network({name: []}).rows[0]
    assert row.name == name
    assert len(row.text) == 24


@pytest.mark.parametrize("parents", [{"a": ["b"], "b": []}, {"a": ["a"]}, {"a": ["unknown"]}])
def test_a_parent_that_does_not_come_first_is_refused(parents: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="parents must come before"):
        draw_network(parents)
