"""Publishers that are killed, cut off or raced, and what readers see then: the old release or the new."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from datetime import timedelta
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

import pytest

from privacy_release.lake.layout import history_name
from privacy_release.lake.read import read_release, releases
from privacy_release.lake.retract import clean_orphans
from privacy_release.lake.store import data_listing
from privacy_release.proof.check import check_table
from privacy_release.proof.faults import Fault
from privacy_release.proof.keys import SigningKey
from tests.children.processes import Child
from tests.object_stores.children import published, publishing, reading
from tests.object_stores.staged import NAME, RELEASE, Staged, seen, send, send_snapshot
from tests.object_stores.stores import Bucket
from tests.object_stores.wire import Answer, Sent, Wire

pytestmark = pytest.mark.object_stores
HISTORY = history_name(NAME)
Edition = Callable[[int], Staged]
Forward = Callable[[], Answer]


def states(bucket: Bucket) -> list[str]:
    return [str(entry["state"]) for entry in releases(bucket.lake().table(NAME))]


def test_at_every_write_of_a_publication_a_reader_sees_the_old_release_or_the_new_one(
    bucket: Bucket, wire: Wire, edition: Edition
) -> None:
    lake = bucket.lake()
    send(lake, edition(1), "run 1")
    steps: list[tuple[str, int | None, int | None]] = []

    def look(request: Sent, forward: Forward) -> Answer:
        if request.writes is None:
            return forward()
        before = seen(lake)
        answer = forward()
        steps.append((request.writes, before, seen(lake)))
        return answer

    wire.course = look
    published(bucket.through(wire.endpoint).lake(), edition(2), "run 2")
    assert steps[-1] == ("commit", 1, 2)
    assert set(steps[:-1]) == {("proof", 1, 1), ("data", 1, 1)}


def test_a_reader_that_never_stops_sees_whole_releases_alone(bucket: Bucket, edition: Edition) -> None:
    lake = bucket.lake()
    send(lake, edition(1), "run 1")
    with reading(lake) as reader:
        assert reader.reported() == 1
        for number in range(2, 8):
            send(lake, edition(number), f"run {number}")
            report = reader.reported()
            while report != number:
                assert report == number - 1
                report = reader.reported()


@pytest.mark.parametrize(
    ("write", "arrives"),
    [("proof", False), ("proof", True), ("data", False), ("data", True), ("commit", False), ("commit", True)],
    ids=["before-proofs", "in-proofs", "before-data", "after-data", "before-commit", "after-commit"],
)
def test_a_killed_publisher_leaves_a_whole_release_and_a_retry_publishes_once(
    bucket: Bucket, wire: Wire, edition: Edition, write: str, arrives: bool
) -> None:
    lake, new = bucket.lake(), edition(2)
    send(lake, edition(1), "run 1")
    victim: Future[Child] = Future()

    def kill(request: Sent, forward: Forward) -> Answer | None:
        if request.writes != write:
            return forward()
        if arrives:
            forward()
        victim.result().kill()
        return None

    wire.course = kill
    with publishing(bucket.through(wire.endpoint).lake(), new, "run 2") as process:
        victim.set_result(process)
        process.killed()
    committed = (write, arrives) == ("commit", True)
    assert seen(lake) == (2 if committed else 1)

    done = send(lake, new, "run 2")
    assert (done.already, done.version) == (committed, 2)
    assert read_release(lake.table(NAME), RELEASE).equals(new.rows())
    assert states(bucket) == ["superseded", "current"]


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_killed_before_any_write_of_a_signed_snapshot_a_retry_moves_the_old_one_to_the_history_once(
    bucket: Bucket, wire: Wire, edition: Edition
) -> None:
    key, old, new = SigningKey.new(), edition(1), edition(2)
    lake, apart, way = bucket.lake(), bucket.lake("apart"), bucket.through(wire.endpoint)
    send_snapshot(lake, apart, old, key)
    published_old = bucket.objects()
    unproven = 0
    writes: dict[str, str] = {}  # what is written, in parts or whole, by its path -> its kind
    for kill_before in range(1, 100):
        bucket.restore(published_old)
        victim: Future[Child] = Future()
        writes.clear()

        def kill(
            request: Sent, forward: Forward, last: int = kill_before, victim: Any = victim
        ) -> Answer | None:
            if request.writes is not None:
                writes.setdefault(urlsplit(request.path).path, request.writes)
                if len(writes) == last:
                    victim.result().kill()
                    return None
            return forward()

        wire.course = kill
        with publishing(way.lake(), new, "run", history=way.lake("apart"), key=key) as process:
            victim.set_result(process)
            done = process.ended()
        before = check_table(lake.table(NAME), [key.public])
        if not before.right:
            assert seen(lake) == 2, before.reasons
            assert [reason.fault for reason in before.reasons] == [Fault.STATEMENT_MISSING]
            unproven += 1
        if done is not None:
            break

        send_snapshot(lake, apart, new, key)
        assert seen(lake) == 2
        assert [entry["state"] for entry in releases(lake.table(NAME))] == ["superseded", "current"]
        assert read_release(apart.table(HISTORY), "edition-1").equals(old.rows())
        assert [entry["state"] for entry in releases(apart.table(HISTORY))] == ["current"]
        clean_orphans(lake.table(NAME), older_than=timedelta(0))
        clean_orphans(apart.table(HISTORY), older_than=timedelta(0))
        assert [len(data_listing(lake.table(NAME))), len(data_listing(apart.table(HISTORY)))] == [1, 1]
        after = check_table(lake.table(NAME), [key.public])
        assert (after.right, after.sequence) == (True, 2), after.reasons
    assert unproven == 1
    assert len(writes) == kill_before - 1
    # In the lake, in the history, and what erases the old file: a request to the bucket.
    assert [kind for kind, _ in groupby(writes.values())] == [
        "proof", "data", "commit", "proof", "commit", "data", "commit", "else",
    ]  # fmt: skip


def test_a_first_publisher_that_is_killed_leaves_no_release_and_a_retry_makes_one(
    bucket: Bucket, wire: Wire, edition: Edition
) -> None:
    victim: Future[Child] = Future()

    def kill_once_the_table_stands(request: Sent, forward: Forward) -> Answer | None:
        if request.writes != "data":
            return forward()
        victim.result().kill()
        return None

    wire.course = kill_once_the_table_stands
    with publishing(bucket.through(wire.endpoint).lake(), edition(1), "run 1") as process:
        victim.set_result(process)
        process.killed()
    assert seen(bucket.lake()) is None
    assert states(bucket) == []
    send(bucket.lake(), edition(2), "run 2")
    assert seen(bucket.lake()) == 2


def test_a_commit_that_arrives_after_its_publisher_died_and_was_retried_is_refused_by_the_store(
    bucket: Bucket, wire: Wire, edition: Edition
) -> None:
    lake, new = bucket.lake(), edition(2)
    send(lake, edition(1), "run 1")
    victim: Future[Child] = Future()
    late: list[Forward] = []

    def delay(request: Sent, forward: Forward) -> Answer | None:
        if request.writes != "commit":
            return forward()
        late.append(forward)
        victim.result().kill()
        return None

    wire.course = delay
    with publishing(bucket.through(wire.endpoint).lake(), new, "run 2") as process:
        victim.set_result(process)
        process.killed()
    done = send(lake, new, "run 2")
    before = bucket.objects()
    status = late[0]()[0]
    assert status in (409, 412)
    assert bucket.objects() == before
    assert not done.already
    assert seen(lake) == 2


def test_a_publisher_that_never_hears_of_its_commit_publishes_once(
    bucket: Bucket, wire: Wire, edition: Edition
) -> None:
    lake, new = bucket.lake(), edition(2)
    send(lake, edition(1), "run 1")
    lost: list[int] = []

    def lose_the_first_answer(request: Sent, forward: Forward) -> Answer | None:
        answer = forward()
        if request.writes == "commit" and not lost:
            lost.append(answer[0])
            return None
        return answer

    wire.course = lose_the_first_answer
    reported = published(bucket.through(wire.endpoint).lake(), new, "run 2")
    assert lost in ([200], [201])
    assert reported.get("already") or "then retry" in reported["error"]
    assert send(lake, new, "run 2").already
    assert states(bucket) == ["superseded", "current"]
    assert seen(lake) == 2


def meet(wire: Wire, parties: int) -> None:
    """Hold the first commits until all of them have been sent."""
    barrier = threading.Barrier(parties)
    turns = iter(range(parties))

    def hold(request: Sent, forward: Forward) -> Answer:
        if request.writes == "commit" and next(turns, None) is not None:
            barrier.wait()
        return forward()

    wire.course = hold


def test_two_attempts_of_one_run_at_once_make_one_commit(
    bucket: Bucket, wire: Wire, edition: Edition
) -> None:
    send(bucket.lake(), edition(1), "run 1")
    new = edition(2)
    meet(wire, 2)
    with ExitStack() as stack:
        pair = [
            stack.enter_context(publishing(bucket.through(wire.endpoint).lake(), new, "run 2"))
            for _ in range(2)
        ]
        reported = [process.done() for process in pair]
    assert sorted(one.get("already", one) for one in reported) == [False, True]
    assert {one["version"] for one in reported} == {2}
    assert states(bucket) == ["superseded", "current"]
    assert seen(bucket.lake()) == 2


@pytest.mark.parametrize("store", ["azure"], indirect=True)
def test_a_proof_that_another_attempt_of_the_run_has_stored_meanwhile_is_stored(
    bucket: Bucket, wire: Wire, edition: Edition
) -> None:
    barrier, answers = threading.Barrier(2), list[int]()

    def hold(request: Sent, forward: Forward) -> Answer:
        """Both have sent the parts of the first proof before one of them puts them together."""
        ends = request.writes == "proof" and "comp=blocklist" in request.path
        if ends and len(answers) < 2:
            barrier.wait()
        answer = forward()
        if ends:
            answers.append(answer[0])
        return answer

    wire.course = hold
    with ExitStack() as stack:
        lake, new = bucket.through(wire.endpoint).lake(), edition(1)
        pair = [stack.enter_context(publishing(lake, new, "run 1")) for _ in range(2)]
        reported = [process.done() for process in pair]
    assert sorted(answers[:2]) == [201, 400]  # the parts of the other are gone
    assert sorted(one["already"] for one in reported) == [False, True]
    assert seen(bucket.lake()) == 1


def test_two_runs_that_replace_one_release_at_once_leave_one_of_them_whole(
    bucket: Bucket, wire: Wire, edition: Edition
) -> None:
    send(bucket.lake(), edition(1), "run 1")
    meet(wire, 2)
    with ExitStack() as stack:
        pair = [
            stack.enter_context(
                publishing(bucket.through(wire.endpoint).lake(), edition(number), f"run {number}")
            )
            for number in (2, 3)
        ]
        reported = [process.done() for process in pair]
    assert not any(one["already"] for one in reported)
    last = max(range(2), key=lambda i: reported[i]["version"])
    assert seen(bucket.lake()) == last + 2
    assert states(bucket) == ["superseded", "superseded", "current"]
