"""How a table is cut into fragments that a method can anonymize one by one, and whether it may."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.engines.engine import Assign, Engine, Files
from privacy_engine.engines.frames import to_frame
from privacy_engine.errors import SpecError
from privacy_engine.fragments.cut_tree import CutTree
from privacy_engine.fragments.cutting import cut
from privacy_engine.fragments.handover import count_leaves, hand_over
from privacy_engine.fragments.whole import WholeTable, widened
from privacy_engine.recoding.grouping.constraints import Constraints
from privacy_engine.recoding.grouping.model_rules import compile_constraints, require_one_class
from privacy_engine.release import ReleaseMethod
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import (
    BetaLikeness,
    DeltaDisclosure,
    PrivacyModel,
    SensitiveModel,
    TCloseness,
)

SAMPLE = 200_000  # records on which the cuts are found


@dataclass(frozen=True, kw_only=True)
class FragmentPlan:
    """A table cut into fragments. PRIVATE: it holds values of the source.

    Attributes:
        schema: Schema of the source.
        whole: Facts about the whole table that fragments require.
        tree: Cut tree, which assigns records to fragments.
        sizes: Records of each, shape (fragments,).
        seed: Seed of the random choices in all fragments, >= 0.
    """

    schema: DataSchema
    whole: WholeTable
    tree: CutTree
    sizes: tuple[int, ...]
    seed: int

    @property
    def fragments(self) -> int:
        """How many there are."""
        return len(self.sizes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``from_dict`` reads back."""
        return {
            "schema": self.schema.to_dict(),
            "whole": self.whole.to_dict(),
            "tree": self.tree.to_dict(),
            "sizes": list(self.sizes),
            "seed": self.seed,
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "FragmentPlan":
        """Read what ``to_dict`` writes."""
        return cls(
            schema=DataSchema.from_dict(given["schema"]),
            whole=WholeTable.from_dict(given["whole"]),
            tree=CutTree.from_dict(given["tree"]),
            sizes=tuple(given["sizes"]),
            seed=given["seed"],
        )


@dataclass(frozen=True, kw_only=True)
class StandingCut:
    """A cut that later releases keep. PRIVATE: it holds values of the source.

    Attributes:
        tree: Cut tree, with the fragment of each leaf.
        schema: Closed schema, whose domains have all values that released cells may cover.
    """

    tree: CutTree
    schema: DataSchema

    @classmethod
    def of(cls, plan: FragmentPlan) -> "StandingCut":
        """Return the cut of a plan."""
        return cls(tree=plan.tree, schema=plan.whole.schema)

    def to_json(self) -> str:
        """Return text for `from_json`, the same for equal cuts."""
        return json.dumps({"tree": self.tree.to_dict(), "schema": self.schema.to_dict()}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "StandingCut":
        """Read the output of `to_json`."""
        given = json.loads(text)
        return cls(tree=CutTree.from_dict(given["tree"]), schema=DataSchema.from_dict(given["schema"]))


def plan_fragments(
    engine: Engine, files: Files, schema: DataSchema, method: ReleaseMethod, *, rows: int, seed: int | None
) -> FragmentPlan:
    """Cut a table so that the method can anonymize each fragment by itself.

    Args:
        engine: Reads the table.
        files: Parquet files of the table.
        schema: Schema of the table.
        method: Anonymizer that later works on each fragment.
        rows: Most records of a fragment; more if they are equal in all quasi-identifiers, or if a neighbour
            could not meet the guarantees by itself.
        seed: Seed of all random choices, >= 0; None takes fresh entropy.

    Raises:
        SpecError: If the method cannot work in fragments.
        SchemaError: If the table does not fit the schema, or has nothing that the method needs.
        InfeasibleError: If the whole table cannot be one class.
        IntegrityError: If the table changes during the work.
    """
    anonymizer, seed = fragmentable(method), _drawn(seed)
    whole, constraints = _whole_of(engine, files, schema, anonymizer)
    tree = CutTree()
    if whole.rows > rows:
        sample = to_frame(engine.sample(files, SAMPLE, seed))
        tree = cut(sample, whole.schema, whole.rows, rows)
    contents = count_leaves(engine, files, tree, whole, constraints)
    # room for more than one class: a fragment of fewer than 2k records could only be generalized as a whole
    tree, sizes = hand_over(tree, contents, 2 * anonymizer.least, constraints)
    return FragmentPlan(schema=schema, whole=whole, tree=tree, sizes=sizes, seed=seed)


def plan_again(
    engine: Engine,
    files: Files,
    schema: DataSchema,
    method: ReleaseMethod,
    *,
    standing: StandingCut,
    leaf_of: Assign,
    last: Sequence[int],
    seed: int | None,
) -> FragmentPlan:
    """Plan a release in the fragments of an earlier one, some of which may become one.

    A fragment with too few records, now or in the last release, joins a neighbour, as in `plan_fragments`.

    Args:
        engine: Reads the table.
        files: Parquet files of the table.
        schema: Schema of the table.
        method: Anonymizer that the fragments are released by.
        standing: Cut of the earlier release.
        leaf_of: Leaf of each record.
        last: Records of the last release in each leaf, shape (leaves,).
        seed: Seed of the cuts and of all fragments, as for `plan_fragments`.

    Raises:
        SpecError, SchemaError, InfeasibleError, IntegrityError: As `plan_fragments`.
    """
    anonymizer, seed = fragmentable(method), _drawn(seed)
    whole, constraints = _whole_of(engine, files, schema, anonymizer)
    whole = replace(whole, schema=widened(whole.schema, schema, standing.schema))
    contents = count_leaves(engine, files, standing.tree, whole, constraints, leaf_of=leaf_of)
    contents = replace(contents, people=np.minimum(contents.sizes, np.asarray(last, dtype=np.int64)))
    tree, sizes = hand_over(standing.tree, contents, 2 * anonymizer.least, constraints)
    return FragmentPlan(schema=schema, whole=whole, tree=tree, sizes=sizes, seed=seed)


def _drawn(seed: int | None) -> int:
    return int(np.random.SeedSequence(seed).generate_state(1)[0]) if seed is None else seed


def _whole_of(
    engine: Engine, files: Files, schema: DataSchema, method: Anonymizer
) -> tuple[WholeTable, Constraints]:
    """Return the facts about a table, and the requirements on each class, which the whole table must meet."""
    whole = WholeTable.of_files(engine, files, schema, _attributes_of(method.sensitive_models, schema))
    constraints = compile_constraints(method.sensitive_models, whole)
    counts = np.concatenate([np.zeros(0, np.int64), *whole.sensitive_counts]).astype(np.int32)
    require_one_class(whole.rows, method.least, counts, constraints, whole.sensitive_names)
    return whole, constraints


def _attributes_of(models: Sequence[PrivacyModel], schema: DataSchema) -> list[str]:
    """Return the sensitive attributes of the models."""
    known = [a.name for a in schema.sensitive]
    named = {model.attribute for model in models if isinstance(model, SensitiveModel)}
    # all attributes for the name None, and for an unknown name, which is refused later
    return [name for name in known if name in named] if named <= set(known) else known


def fragmentable(method: ReleaseMethod) -> Anonymizer:
    """Return the method, unless its releases of a table's parts do not form a release of the table.

    Raises:
        SpecError: Saying why, and what to do.
    """
    if not isinstance(method, Anonymizer):
        raise SpecError(f"only anonymizers work in fragments, and {method.key} is not one. Remove the engine")
    if not method.fragmentable:
        raise SpecError(
            f"{method.key} keeps the same attributes for all records, but would keep others in each "
            "fragment. Use another anonymizer, or remove the engine"
        )
    against_table = TCloseness | BetaLikeness | DeltaDisclosure
    compared = [model.name for model in method.sensitive_models if isinstance(model, against_table)]
    if compared and not method.keeps_distribution:
        raise SpecError(
            f"{', '.join(compared)} compares each class with all released records, and {method.key} does not "
            "know which of them other fragments suppress or change; set suppression_limit to 0 and choose no "
            "repair that distorts, or remove the engine"
        )
    return method
