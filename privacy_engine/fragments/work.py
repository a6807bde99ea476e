"""One fragment: a method's release of its records, and its share of the table's figures."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from privacy_engine.errors import IntegrityError
from privacy_engine.fragments.figures import FragmentFigures
from privacy_engine.fragments.plan import FragmentPlan, fragmentable
from privacy_engine.release import Release, ReleaseMethod


@dataclass(frozen=True, kw_only=True)
class FragmentRelease:
    """The contribution of a fragment to the joined table.

    Attributes:
        release: Release of its records; ``rows`` are rows of the fragment.
        figures: Figures to add to those of the other fragments.
    """

    release: Release
    figures: FragmentFigures


def release_fragment(
    plan: FragmentPlan, fragment: int, frame: pd.DataFrame, method: ReleaseMethod
) -> FragmentRelease:
    """Anonymize a fragment as a part of its table.

    The random choices follow from the plan's seed and the fragment's number, so repeating it returns equal
    records. The join of all fragments keeps the method's guarantees: classes of different fragments that look
    the same are merged, and every model holds for the union of two classes that meet it.

    Args:
        plan: Plan by which the table was cut.
        fragment: Number of the fragment, 0 .. fragments - 1.
        frame: All its records, in any order.
        method: One that the plan was made for.

    Raises:
        SpecError: If the method cannot work in fragments.
        SchemaError: If the records do not fit the schema or the whole table.
        IntegrityError: If they are not as many as the plan counted.
        InfeasibleError: If the guarantees cannot be met.
    """
    if len(frame) != plan.sizes[fragment]:
        raise IntegrityError(
            f"fragment {fragment} must have the {plan.sizes[fragment]} records that the plan counted, got "
            f"{len(frame)}: the table changed in between; cut it again"
        )
    rng = np.random.default_rng([plan.seed, fragment])
    release = fragmentable(method).release(frame, plan.whole.schema, rng, whole=plan.whole.sensitive)
    return FragmentRelease(release=release, figures=FragmentFigures.of(release, plan.schema))
