"""Charts: where values, ticks and labels stand."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_release.reports.charts import (
    CANVAS_HEIGHT,
    CANVAS_WIDTH,
    HEIGHT,
    LINE,
    RIGHT,
    TOP,
    WIDTH,
    Point,
    Scale,
    Series,
    heat_map,
    interval,
    label_heights,
    line_chart,
    percent_ticks,
    plot,
    round_ticks,
)

shares = st.integers(0, 10_000).map(lambda value: value / 10_000)


@given(least=shares, span=shares)
def test_ticks_are_few_equally_far_apart_and_reach_around_all_values(least: float, span: float) -> None:
    ticks = round_ticks(least, least + span)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] <= least + 1e-6 * ticks[-1]
    assert ticks[-1] >= (least + span) * (1 - 1e-6)
    steps = [b - a for a, b in itertools.pairwise(ticks)]
    assert steps == pytest.approx([steps[0]] * len(steps), rel=1e-5)


def test_a_scale_without_extent_has_its_value_in_the_middle() -> None:
    assert Scale(low=2.0, high=2.0).share(2.0) == 0.5


def test_labels_of_near_points_never_lie_on_each_other_nor_below_their_points() -> None:
    places = [(90.0 + 7 * i, y) for i, y in enumerate((330.0, 331.0, 329.5, 100.0, 100.0, 332.0, 60.0))]
    heights = label_heights(places)
    assert all(b - a >= LINE for a, b in itertools.pairwise(sorted(heights)))
    assert all(height <= y for height, (_, y) in zip(heights, places, strict=True))


def test_a_label_stays_beside_its_point_where_the_others_are_far() -> None:
    assert label_heights([(60.0, 300.0), (400.0, 301.0)]) == [300.0, 301.0]


def test_no_label_rises_above_the_plot() -> None:
    heights = label_heights([(90.0, TOP + 2.0), (90.0, TOP + 1.0), (90.0, float(TOP))])
    assert min(heights) == TOP
    assert all(b - a >= LINE for a, b in itertools.pairwise(sorted(heights)))


def test_a_plot_has_greater_values_higher_and_further_right_inside_its_axes() -> None:
    points = ((1.0, 0.1), (10.0, 0.4))
    ticks = [(1.0, "1"), (10.0, "10")]
    drawn = plot(
        [Series(label="a", kind="mark", points=points)], x=ticks, y=percent_ticks(0.0, 0.4), log_x=True
    )
    ((left, low), (right, high)) = drawn.series[0].points
    assert (left, right) == (drawn.left, drawn.right) == (drawn.x_ticks[0].at, drawn.x_ticks[-1].at)
    assert high == drawn.top == drawn.y_ticks[-1].at
    assert high < low < drawn.bottom < HEIGHT
    assert drawn.right == WIDTH - RIGHT


def test_a_heat_map_has_each_pair_once_and_no_cell_is_more_than_full() -> None:
    names = ["a", "b", "a name that is too long for the margin of a chart"]
    drawn = heat_map(names, lambda i, j: (i + j) / 3, lambda i, j: f"{i} {j}", full=0.5)
    assert [(cell.row, cell.column) for cell in drawn.cells] == [(1, 0), (2, 0), (2, 1)]
    assert [cell.opacity for cell in drawn.cells] == [pytest.approx(2 / 3), 1.0, 1.0]
    assert [cell.text for cell in drawn.largest(1)] == ["2 1"]
    assert drawn.cells[1].pair.endswith("of a chart")
    assert drawn.names[2].endswith("…")


def test_an_interval_lies_in_its_scale_with_its_value_between_its_ends() -> None:
    drawn = interval(
        -0.1, 0.0, 0.3, scale=Scale(low=-0.1, high=0.3), nothing=0.0, bound=0.2, label="0, -0.1 to 0.3"
    )
    assert (drawn.low, drawn.high) == (0.0, 100.0)
    assert drawn.value == drawn.nothing == pytest.approx(25)
    assert drawn.bound == pytest.approx(75)


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("spans", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_a_line_chart_stays_on_its_canvas(count: int, *, spans: bool, steps: bool) -> None:
    points = [
        Point(x=i, y=i + 1.0, text=str(i), span=(i + 0.5, i + 1.5) if spans else None) for i in range(count)
    ]
    drawn = line_chart(
        points, label="a", ends=("first", "last"), top=4.0, texts=("4", "0"), limit=4.0, steps=steps
    )
    assert len(drawn.dots) == count
    for path in (drawn.line, drawn.area):
        places = [float(number) for number in re.findall(r"-?[\d.]+", path)]
        assert all(0 <= x <= CANVAS_WIDTH for x in places[::2])
        assert all(0 <= y <= CANVAS_HEIGHT for y in places[1::2])
    assert drawn.line.count("L") == (count - 1) * (2 if steps else 1)


def test_values_that_are_all_0_lie_on_the_lower_edge() -> None:
    drawn = line_chart(
        [Point(x=0, y=0.0, text="0")], label="a", ends=("", ""), top=0.0, texts=("", "0"), limit=0.0
    )
    assert drawn.dots[0].y == drawn.limit
    assert float(drawn.dots[0].y) > CANVAS_HEIGHT / 2
