"""One fragment by itself: a method's release of its records, and its share of the table's figures."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from privacy_engine.errors import IntegrityError
from privacy_engine.fragments.figures import FragmentFigures
from privacy_engine.fragments.plan import FragmentPlan, fragmentable
from privacy_engine.release import Release, ReleaseMethod


@dataclass(frozen=True, kw_only=True)
class FragmentRelease:
    """What a fragment gives to the joined table.

    Attributes:
        release: its records; ``rows`` are rows of the fragment.
        figures: to be added to those of the other fragments.
    """

    release: Release
    figures: FragmentFigures


def release_fragment(
    plan: FragmentPlan, fragment: int, frame: pd.DataFrame, method: ReleaseMethod
) -> FragmentRelease:
    """Anonymize a fragment as a part of its table.

    The random choices follow from the plan's seed and the fragment's number, so doing it again gives equal
    records. The join of all fragments keeps what the method guarantees: classes of different fragments that
    look alike become one, and every model holds for the union of two classes that keep it.

    Args:
        plan: how the table was cut.
        fragment: which part of it, 0 .. fragments - 1.
        frame: all its records, in any order.
        method: the one that the plan was made for.

    Raises:
        SpecError: if the method cannot work in fragments.
        SchemaError: if the records do not fit the schema or the whole table.
        IntegrityError: if they are not as many as the plan counted.
        InfeasibleError: if the guarantees cannot be met.
    """
    if len(frame) != plan.sizes[fragment]:
        raise IntegrityError(
            f"fragment {fragment} must have the {plan.sizes[fragment]} records that the plan counted, got "
            f"{len(frame)}: the table changed in between; cut it again"
        )
    rng = np.random.default_rng([plan.seed, fragment])
    release = fragmentable(method).release(frame, plan.whole.schema, rng, whole=plan.whole.sensitive)
    return FragmentRelease(release=release, figures=FragmentFigures.of(release, plan.schema))
