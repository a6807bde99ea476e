"""The model of what a release costs, on figures that are worked by hand, and a release that it measures."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.scale import scale_model, scale_release
from benchmarks.scale.scale_model import Constant
from benchmarks.scale.scale_release import INGEST, PARTS, PUBLISH, WORK, Part, Spent
from benchmarks.tables import Table, of_frame
from deploy.local.samples.synthetic_adult import synthetic_adult


@pytest.fixture(scope="module")
def table() -> Table:
    return of_frame(synthetic_adult(2_000, rng=np.random.default_rng(1)), "generated")


def spent(rows: int, **parts: Part) -> Spent:
    return Spent(rows=rows, classes=1, peak=10**9, read=rows, written=rows, parts=parts)


def part(rows: int) -> Part:
    """Two CPU seconds of start, a microsecond a row alone, three together, and ten bytes."""
    return Part(wall=rows, alone=1 + 1e-6 * rows, together=1 + 3e-6 * rows, moved=10.0 * rows)


def test_constants_are_the_line_through_the_two_smallest_sizes() -> None:
    sizes = (30_000_000, 1_000_000, 3_000_000)
    model = scale_model.fitted([spent(rows, work=part(rows)) for rows in sizes])
    found = model["work"]
    assert found.start == pytest.approx(2.0)
    assert found.alone == pytest.approx(1e-6)
    assert found.together == pytest.approx(3e-6)
    assert found.cpu(10**9) == pytest.approx(2 + 4_000)
    assert found.wall(10**9, 8, 1e8) == pytest.approx(2 + 1_000 + 3_000 / 8 + 100)


def test_an_exponent_is_that_of_the_cpu_seconds() -> None:
    sizes = (1_000_000, 3_000_000, 30_000_000)
    found = [
        spent(rows, **{name: Part(alone=1e-6 * rows, together=1e-18 * rows**2) for name in PARTS})
        for rows in sizes
    ]
    assert scale_model.exponents(found).count("1.00") == 3 * len(PARTS)
    squared = [spent(rows, **{name: Part(together=1e-12 * rows**2) for name in PARTS}) for rows in sizes]
    assert scale_model.exponents(squared).count("2.00") == 3 * len(PARTS)


def test_executors_copy_and_work_and_one_machine_publishes() -> None:
    constant = Constant(start=0.0, alone=0.0, together=6e-6, moved=0.0)
    text = scale_model.predicted({INGEST: constant, WORK: constant, PUBLISH: constant}, 1e9, factor=4.0)
    cells = [line.split(" | ")[1:] for line in text.splitlines()[2:]]
    assert [cell.strip(" |") for cell in cells[0]] == ["100", "12.5", "0.5"]
    assert [cell.strip(" |") for cell in cells[1]] == ["100", "12.5", "2.0"]
    assert [cell.strip(" |") for cell in cells[2]] == ["100", "12.5", "12.5"]


def test_the_source_of_the_sizes_that_give_the_constants_is_copied_in_shares() -> None:
    sizes = (3_000_000, 10_000_000, 30_000_000, 100_000_000)
    apart = {rows: part(rows) if rows >= 10_000_000 else Part(wall=1, alone=1, together=1) for rows in sizes}
    found = scale_model.fitted([spent(rows, ingest=apart[rows]) for rows in sizes])["ingest"]
    assert (found.start, found.alone) == (pytest.approx(2.0), pytest.approx(1e-6))


@pytest.mark.slow
def test_every_part_of_a_release_is_measured(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale_release, "FRAGMENT", 2_000)
    messages: list[str] = []
    found = scale_release.release(table, 3_000, tmp_path, messages.append)
    assert tuple(found.parts) == PARTS
    assert all(part.wall > 0 for part in found.parts.values())
    assert found.rows == 3_000
    assert found.peak > 10**8
    assert min(found.read, found.written) > 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "source-3000", "lake-3000", "releases", "hierarchies", "policy.yaml",
    }  # fmt: skip
