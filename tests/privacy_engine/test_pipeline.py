"""Steps that are done at the same time: the order, the errors and the progress of one after the other."""

import threading
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest

from privacy_engine.engines.parquet import regrouped
from privacy_engine.pipeline import ahead, each_ahead
from privacy_engine.progress import advance, reporting_to

PATIENCE = 60.0  # seconds until a thread that never comes is a failure


def pools() -> set[threading.Thread]:
    """All threads of pools in this process."""
    return {thread for thread in threading.enumerate() if "ThreadPoolExecutor" in thread.name}


@pytest.fixture
def others() -> set[threading.Thread]:
    """Those before the test: libraries such as pyiceberg keep a pool for as long as the process runs."""
    return pools()


def test_two_items_are_in_the_making_at_the_same_time_and_their_order_stays() -> None:
    together = threading.Barrier(2)
    second = threading.Event()

    def work(item: int) -> int:
        together.wait(PATIENCE)
        if item % 2:
            second.set()
        else:
            assert second.wait(PATIENCE)  # the later one is done first
            second.clear()
        return -item

    with each_ahead(work, range(6), 2) as results:
        assert list(results) == [0, -1, -2, -3, -4, -5]


@pytest.mark.parametrize(("items", "threads"), [([1], False), ([1, 2], True), (iter([1]), True)])
def test_one_item_alone_needs_no_thread(items: Iterable[int], threads: bool) -> None:
    with each_ahead(lambda _: threading.current_thread(), items, 2) as results:
        assert all((thread is not threading.main_thread()) is threads for thread in results)


def test_an_error_comes_in_its_place_and_few_items_are_begun_after_it() -> None:
    begun = []

    def work(item: int) -> int:
        begun.append(item)
        if item == 3:
            raise ValueError("three")
        return item

    with each_ahead(work, range(100), 2) as results:
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="three"):
            next(results)
    assert max(begun) <= 3 + 2


def test_an_error_of_the_caller_leaves_no_thread_to_the_garbage_collector(
    others: set[threading.Thread],
) -> None:
    begun = []

    def whole() -> None:
        with each_ahead(begun.append, range(100), 2) as results:
            next(results)
            raise ValueError("of the caller")

    with pytest.raises(ValueError, match="of the caller") as caught:
        whole()
    assert caught.tb is not None  # holds the frames, and all that is theirs
    assert pools() <= others
    assert len(begun) <= 1 + 2


def test_records_in_groups_close_what_they_come_from() -> None:
    closed = []

    def tables() -> Iterator[pa.Table]:
        try:
            yield from [pa.table({"a": [1, 2]}), pa.table({"b": ["no column of the first"]})]
            yield pa.table({"a": [3]})
        finally:
            closed.append(True)

    source = tables()
    groups = regrouped(source, 2)
    assert next(groups).num_rows == 2
    with pytest.raises(pa.ArrowInvalid):
        next(groups)
    assert closed == [True]


def test_the_next_item_is_made_while_the_caller_has_the_one_before() -> None:
    made = [threading.Event() for _ in range(3)]

    def items() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    with ahead(items()) as numbers:
        assert next(numbers) == 0
        assert made[1].wait(PATIENCE)
        assert not made[2].is_set()
        assert list(numbers) == [1, 2]


def test_an_error_of_the_items_comes_after_those_before_it_and_closes_them() -> None:
    closed = []

    def items() -> Iterator[int]:
        try:
            yield 0
            raise ValueError("one")
        finally:
            closed.append(True)

    with ahead(items()) as numbers:
        assert next(numbers) == 0
        with pytest.raises(ValueError, match="one"):
            next(numbers)
    assert closed == [True]


def test_who_leaves_early_closes_the_items_and_nothing_more_is_made(others: set[threading.Thread]) -> None:
    made, closed = [], threading.Event()

    def items() -> Iterator[int]:
        try:
            for number in range(100):
                made.append(number)
                yield number
        finally:
            closed.set()

    with ahead(items()) as numbers:
        assert next(numbers) == 0
    assert closed.is_set()
    assert len(made) <= 2
    assert pools() <= others


def test_the_progress_of_the_items_is_reported_to_the_listener_of_the_caller() -> None:
    shares: list[float] = []

    def items() -> Iterator[int]:
        for number in range(4):
            yield number
            advance((number + 1) / 4)

    with reporting_to(shares.append), ahead(items()) as numbers:
        assert len(list(numbers)) == 4
    assert shares == [0.25, 0.5, 0.75, 1.0]
