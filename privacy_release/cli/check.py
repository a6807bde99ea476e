"""`privacy-release check`: read specifications, and all that they name, before they run."""

import argparse
from functools import partial
from pathlib import Path


def add_check_command(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "specs",
        nargs="*",
        type=Path,
        metavar="SPEC",
        help="YAML files as in include/releases; default: all of the include folder",
    )
    parser.set_defaults(command=_check)


def _check(arguments: argparse.Namespace) -> int:
    from privacy_release.spec.catalogue import attempted, catalogue, raise_if_any

    paths, faults = arguments.specs, list[str]()
    if not paths:
        found = catalogue()
        paths, faults = list(found.usable), list(found.faults)
    for path in paths:
        _, fault = attempted(path.absolute(), partial(_check_whole, path))
        faults += [fault] if fault else []
        print(f"{path}: {'wrong' if fault else 'right'}")
    raise_if_any(faults)
    return 0


def _check_whole(path: Path) -> None:
    """Everything that can be known of a release without its records."""
    from privacy_release.spec.check import check_files, refuse_columns
    from privacy_release.spec.floor import floor_policy, under_floor
    from privacy_release.spec.methods import build_method
    from privacy_release.spec.model import load_spec
    from privacy_release.steps.validate import check_suite

    spec = load_spec(path)
    floor = floor_policy()
    check_files(spec, floor)
    refuse_columns(spec, under_floor(spec.release_policy(), floor))
    build_method(spec.release.method, spec.release.parameters)
    suites = [spec.expectation_suite(), *(table.suite() for table in (spec.tables or {}).values())]
    for suite in (suite for suite in suites if suite is not None):
        check_suite(suite)
