"""Records drawn from a differentially private model part by part, into a file that no process holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_release.work.parquet import private_parquet

if TYPE_CHECKING:
    import numpy as np

    from privacy_engine.release import Release
    from privacy_engine.synthesizers.model import SynthesizerModel
    from privacy_engine.synthesizers.synthesizer import Synthesizer
    from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A release whose records are in a file.

    Attributes:
        release: of them, with the first part as its table.
        rows: in the file.
        sha256: of the file.
    """

    release: "Release"
    rows: int
    sha256: str


def draw_parts(
    method: "Synthesizer",
    model: "SynthesizerModel",
    schema: "DataSchema",
    rng: "np.random.Generator",
    path: Path,
    size: int | None = None,
) -> Drawn:
    """Draw as many records as `Synthesizer.release_of` does: the same ones, where one part is enough.

    Args:
        method: that measured the model.
        model: that they are drawn from.
        schema: it was measured with.
        rng: draws them.
        path: of the file.
        size: most records of a part; None: what the synthesizer thinks fit.
    """
    from privacy_engine.engines.frames import to_arrow
    from privacy_engine.synthesizers.synthesizer import PART

    release, others = method.release_parts(model, schema, rng, size or PART)
    with private_parquet(path) as file:
        file.write(to_arrow(release.table))
        for part in others:
            file.write(to_arrow(part))
    return Drawn(release=release, rows=file.rows, sha256=file.sha256)
