"""What must not move: words and hashes that ledgers, lakes and work areas of earlier versions hold.

`python -m tests.golden` rewrites `golden.json`. If a key changes, a retry after an upgrade pays twice; if a
field is renamed, it is lost in published releases; if a folder is renamed, no later run removes it. So give
the reason in the commit message when you rewrite the file.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deploy.local.embedded import checkout
from privacy_engine.randomizers.randomizer import Randomizer
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_release.budget.budget import booking_key
from privacy_release.budget.schedules import schedule_named
from privacy_release.budget.secrets import described_parameters
from privacy_release.lake.layout import folder_name
from privacy_release.lake.read import manifest_of, releases
from privacy_release.spec.methods import build_method
from privacy_release.spec.model import ReleaseSpec, load_spec
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.journal import AreaFiles, Journal
from tests.made import Made, made_release

FILE = Path(__file__).with_name("golden.json")
INPUT = "0" * 64
# One release of each kind, whose manifests and ledgers are compared.
EXAMPLES = ("adult_occupation", "adult_synthetic_weekly", "bank_customers_randomized", "clinic_tables")


def shipped() -> dict[str, ReleaseSpec]:
    """The shipped releases by name."""
    found = sorted((checkout() / "include" / "releases").glob("*.yaml"))
    return {path.stem: load_spec(path) for path in found}


def schemas() -> dict[str, str]:
    """Of each shipped release the sha256 of the schema that its method is given."""
    return {name: _sha256(spec.method_schema().to_dict()) for name, spec in shipped().items()}


def booking_keys() -> dict[str, str]:
    """Of each shipped release that spends a budget the key by which its ledger knows an input."""
    return {name: _booking_key(spec) for name, spec in shipped().items() if spec.budget is not None}


def names() -> dict[str, Any]:
    """Folders and files that a later version must find again."""
    with tempfile.TemporaryDirectory() as folder:
        area = WorkArea(Path(folder), "dag/scheduled__2026-01-01T00:00:00+00:00")
        journal = Journal(AreaFiles(area.folder, area.create))
        journal.record("release", -1, journal.begin("release", -1), {"rows": 1})
        written = sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file())
    return {
        "release in a lake": [
            folder_name(text) for text in ("2026-W01", "manual__2026-01-01T00:00:00.5+00:00_x")
        ],
        "work area": written,
    }


def fields(made: Made) -> dict[str, list[str]]:
    """The fields of a published release: of its manifest, its note in the commit and the ledger's entries."""
    manifest = manifest_of(made.lake.table(made.spec.publish.table), made.release_id)
    (note,) = releases(made.lake.table(made.spec.publish.table))
    found: dict[str, Any] = {"manifest": manifest, "publication": note}
    if made.spec.budget is not None:
        entries = made.ledger.history(made.spec.budget.dataset)
        found["ledger"] = [vars(entry) for entry in entries]
    return {name: sorted(set(_paths(value))) for name, value in found.items()}


def read() -> dict[str, Any]:
    """What was written."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def _booking_key(spec: ReleaseSpec) -> str:
    assert spec.budget is not None
    method = build_method(spec.release.method, spec.release.parameters)
    if isinstance(method, Synthesizer):
        parameters = method.measurement_parameters()
    else:
        assert isinstance(method, Randomizer)
        parameters = described_parameters(method)
    if spec.budget.schedule is not None:
        parameters |= {"over_time": schedule_named(spec.name, spec.budget.schedule).question}
    return booking_key(spec.budget.dataset, INPUT, method.key, parameters, spec.method_schema())


def _paths(value: Any, place: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _paths(item, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _paths(item, f"{place}[]")
    else:
        yield place


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def main() -> None:
    """Rewrite the file."""
    with tempfile.TemporaryDirectory() as folder:
        found = {
            "schemas": schemas(),
            "booking_keys": booking_keys(),
            "names": names(),
            "fields": {name: fields(made_release(Path(folder), name)) for name in EXAMPLES},
        }
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
