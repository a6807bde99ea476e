"""Work areas of the command line: made, removed at the end of a command, and swept after a kill."""

import argparse
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from privacy_engine.errors import PrivacyEngineError
from privacy_release.cli.arguments import WrongArgumentError, usage, work_root
from privacy_release.config.durations import parse_duration
from privacy_release.workarea.sweep import AreaState, Looked, SweepRules, idle_limit, sweep

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from privacy_release.workarea.area import WorkArea

    Handler = Callable[[int, FrameType | None], object] | signal.Handlers

# A closed shell, Ctrl-\ and a termination request. Python itself handles interrupts.
_STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_NEEDS_LOOK = {
    AreaState.OF_A_RUN: "belongs to a run, which the sweeper DAG of its Airflow knows",
    AreaState.UNMARKED: "was made by an earlier version; remove it by hand if no run uses it",
    AreaState.KEPT: "was kept on request; `clean --kept` removes it",
}


class StoppedError(KeyboardInterrupt):
    """The process received a signal to end. The exception has its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn signals that end a process into `StoppedError` in this block. Ignored signals stay ignored."""

    def stop(number: int, frame: "FrameType | None") -> None:
        raise StoppedError(number)

    # `nohup` makes a process ignore one.
    heard = [number for number in _STOPS if signal.getsignal(number) is not signal.SIG_IGN]
    with _handling(heard, stop):
        yield


@contextmanager
def _handling(numbers: Sequence[signal.Signals], handler: "Handler") -> Iterator[None]:
    """Handle signals with a handler until the block ends. Only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, signal.SIG_DFL if earlier is None else earlier)


@contextmanager
def removed_after(work: "WorkArea", *, keep: bool = False) -> Iterator[None]:
    """Provide a work area that is removed at the end, even if a signal stops the process.

    Raises:
        WrongArgumentError: If it cannot be made.
    """
    try:
        work.create()
    except OSError as error:
        raise WrongArgumentError(
            f"the folder of work areas, {work.root}, must be writable, got {type(error).__name__}; set "
            "PRIVACY_WORK_AREA to another one"
        ) from None
    try:
        with work:
            try:
                yield
            finally:
                if keep:
                    work.keep()
    finally:
        # A second signal, or an impatient Ctrl-C, must not stop the removal.
        with _handling([*_STOPS, signal.SIGINT], signal.SIG_IGN):
            if keep:
                print(
                    f"kept the work area {work.folder}: it contains raw records, remove it", file=sys.stderr
                )
            else:
                work.remove()


def sweep_before() -> None:
    """Remove work areas left by killed commands and report each. Failures are printed and never raised."""
    # A wrong setting is reported by the command that needs the folder.
    with suppress(PrivacyEngineError, ValueError, OSError):
        found = sweep(work_root(), SweepRules(idle=idle_limit()))
        if removed := sum(looked.state is AreaState.REMOVED for looked in found):
            print(f"removed work areas that killed commands had left: {removed}", file=sys.stderr)
        for looked in found:
            if looked.state is AreaState.STUCK:
                print(f"warning: {_stuck(looked)}", file=sys.stderr)


def add_clean_command(parser: argparse.ArgumentParser) -> None:
    """Declare `clean`."""
    parser.description = (
        "Remove the work areas, with raw records in them, that killed commands left. An area in use stays, "
        "and so does one of an Airflow run, which is left to the sweeper DAG, because that can ask Airflow."
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be removed, and remove nothing"
    )
    parser.add_argument(
        "--kept", action="store_true", help="also remove what `run --keep-work` kept, once its process ended"
    )
    parser.add_argument(
        "--idle",
        metavar="SPAN",
        help="remove another machine's work area after this long without a heartbeat; default: "
        "$PRIVACY_WORK_AREA_IDLE, else 6 hours",
    )
    parser.set_defaults(command=clean)


def clean(arguments: argparse.Namespace) -> int:
    """Run the command `clean`. Return 2 if an area could not be removed."""
    with usage("--idle"):
        idle = idle_limit() if arguments.idle is None else parse_duration(arguments.idle)
    root = work_root()
    try:
        found = sweep(root, SweepRules(idle=idle, kept=arguments.kept, dry=arguments.dry_run))
    except OSError as error:
        raise WrongArgumentError(
            f"the folder of work areas, {root}, must be readable, got {type(error).__name__}; correct "
            "PRIVACY_WORK_AREA, or run it as the user whose areas they are"
        ) from None
    print("\n".join(_lines(found, root_name=str(root), dry=arguments.dry_run)))
    return 2 if any(looked.state is AreaState.STUCK for looked in found) else 0


def _lines(found: Sequence[Looked], *, root_name: str, dry: bool) -> list[str]:
    """Return one line per area, and a summary."""
    gone = AreaState.ABANDONED if dry else AreaState.REMOVED
    count = sum(looked.state is gone for looked in found)
    action = f"{'would be' if dry else 'were'} removed"
    return [*map(_line, found), f"{count} of {len(found)} work areas in {root_name} {action}"]


def _line(looked: Looked) -> str:
    if looked.state is AreaState.STUCK:
        return f"{looked.state:<18} {_stuck(looked)}"
    note = _NEEDS_LOOK.get(looked.state)
    rest = timedelta(seconds=int(looked.idle.total_seconds()))
    age = "" if looked.mark is None else f" (last sign of life {rest} ago)"
    return f"{looked.state:<18} {looked.name}{age}{f': {note}' if note else ''}"


def _stuck(looked: Looked) -> str:
    return (
        f"the work area {looked.folder} must be removed, because it is unused and contains records, but that "
        f"failed ({looked.problem}); make its folder writable, or remove it by hand"
    )
