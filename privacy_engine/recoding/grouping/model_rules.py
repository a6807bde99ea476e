"""From privacy models to the rules that kernels check, and whether a table can meet them at all."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.recoding.grouping.constraints import (
    Constraints,
    Rule,
    RuleKind,
    SensitiveTree,
    class_counts,
    first_refusal,
    no_constraints,
    pack_rules,
)
from privacy_engine.tables.encoding import Domain
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.verification.models import (
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    Distance,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    PrivacyModel,
    RecursiveCLDiversity,
    SensitiveModel,
    TCloseness,
)


class Secrets(Protocol):
    """What rules must know of the sensitive attributes of a table."""

    @property
    def sensitive_names(self) -> tuple[str, ...]:
        """(s,) the attributes."""

    @property
    def sensitive_domains(self) -> tuple[Domain, ...]:
        """(s,) the domains of their codes."""

    @property
    def sensitive_counts(self) -> tuple[npt.NDArray[np.int64], ...]:
        """(s,) of each attribute the (m,) records of the whole table with each value."""


def compile_constraints(models: Sequence[PrivacyModel], table: Secrets) -> Constraints:
    """The models as rules on the sensitive attributes of a table, with its distribution as prior.

    Minimum class sizes are no rules: methods take them as their `k`, see `least_size`.

    Raises:
        SchemaError: If a model needs a sensitive attribute or a hierarchy that the table does not have.
    """
    rules = [rule for model in models for rule in _rules(model, table)]
    if not rules:
        return no_constraints()
    trees = [_tree(domain) if isinstance(domain, Hierarchy) else None for domain in table.sensitive_domains]
    return pack_rules(rules, table.sensitive_counts, trees)


def least_size(models: Sequence[PrivacyModel]) -> int:
    """The largest k that the models ask for, 1 if none does."""
    return max([1, *(model.k for model in models if isinstance(model, KAnonymity | AlphaKAnonymity))])


def _rules(model: PrivacyModel, table: Secrets) -> list[Rule]:
    if isinstance(model, KAnonymity):
        return []
    if not isinstance(model, SensitiveModel):
        raise ValueError(f"{model.name} has no compiled rule: use it for verification only")
    names = table.sensitive_names
    wanted = names if model.attribute is None else (model.attribute,)
    if not wanted or not set(wanted) <= set(names):
        raise SchemaError(f"{model.name} needs a sensitive attribute of the table; it has {list(names)}")
    rules = [_rule(model, names.index(name)) for name in wanted]
    for rule in rules:
        if rule.kind == RuleKind.CLOSE_HIERARCHICAL and not isinstance(
            table.sensitive_domains[rule.attribute], Hierarchy
        ):
            raise SchemaError(f"hierarchical t-closeness needs a hierarchy on {names[rule.attribute]!r}")
    return rules


def _rule(model: SensitiveModel, attribute: int) -> Rule:
    match model:
        case DistinctLDiversity():
            return Rule(kind=RuleKind.DISTINCT, limit=model.l, attribute=attribute)
        case EntropyLDiversity():
            return Rule(kind=RuleKind.ENTROPY, limit=model.l, attribute=attribute)
        case RecursiveCLDiversity():
            return Rule(kind=RuleKind.RECURSIVE, limit=model.c, rank=model.l, attribute=attribute)
        case TCloseness(distance=Distance.EQUAL):
            return Rule(kind=RuleKind.CLOSE_EQUAL, limit=model.t, attribute=attribute)
        case TCloseness(distance=Distance.ORDERED):
            return Rule(kind=RuleKind.CLOSE_ORDERED, limit=model.t, attribute=attribute)
        case TCloseness():
            return Rule(kind=RuleKind.CLOSE_HIERARCHICAL, limit=model.t, attribute=attribute)
        case AlphaKAnonymity():
            return Rule(kind=RuleKind.ALPHA, limit=model.alpha, attribute=attribute)
        case BetaLikeness():
            kind = RuleKind.BETA_ENHANCED if model.enhanced else RuleKind.BETA_BASIC
            return Rule(kind=kind, limit=model.beta, attribute=attribute)
        case DeltaDisclosure():
            return Rule(kind=RuleKind.DELTA, limit=model.delta, attribute=attribute)
        case _:
            raise ValueError(f"{type(model).__name__} has no compiled rule: use it for verification only")


def _tree(hierarchy: Hierarchy) -> SensitiveTree:
    height = np.zeros(len(hierarchy.parent))
    for level in range(hierarchy.height + 1):
        height[hierarchy.at_level(level)] = level / hierarchy.height
    return SensitiveTree(parent=hierarchy.parent, height=height)


def require_feasible(
    n: int,
    k: int,
    sensitive: npt.NDArray[np.int32],
    constraints: Constraints,
    names: Sequence[str] | None = None,
) -> None:
    """Raise if a table is not allowed even as a single class.

    The rules are closed under union: if the whole table breaks a rule, so does every grouping of its records.

    Args:
        n: Number of records.
        k: Least class size.
        sensitive: Codes, shape (s, n).
        constraints: Rules that every class must meet.
        names: Names of the sensitive attributes, for the message.

    Raises:
        InfeasibleError: If there are fewer than k records, or all records together break a rule.
    """
    whole = class_counts(np.zeros(n, np.int64), sensitive, constraints.start, 1)[0]
    require_one_class(n, k, whole, constraints, names)


def require_one_class(
    n: int,
    k: int,
    whole: npt.NDArray[np.int32],
    constraints: Constraints,
    names: Sequence[str] | None = None,
) -> None:
    """The same for a table that is only known by its counts.

    Args:
        n: Number of records.
        k: Least class size.
        whole: Records with each sensitive value, as `Constraints` concatenates them, shape (m_total,) int32.
        constraints: Rules that every class must meet.
        names: Names of the sensitive attributes, for the message.

    Raises:
        InfeasibleError: As `require_feasible`.
    """
    if n < k:
        raise InfeasibleError(f"{n} rows cannot be {k}-anonymous; lower k or bring more records")
    broken = first_refusal(whole, n, constraints)
    if broken < 0:
        return
    attribute = int(constraints.attribute[broken])
    own = whole[constraints.start[attribute] : constraints.start[attribute + 1]]
    name = f"sensitive attribute {attribute + 1}" if names is None else repr(names[attribute])
    model, remedy = _title(RuleKind(int(constraints.kind[broken])))
    raise InfeasibleError(
        f"{model} (threshold {constraints.limit[broken]:g}) must hold for all {n} rows as one class, "
        f"but {name} has {np.count_nonzero(own)} distinct values, "
        f"the most frequent in {own.max()} rows; {remedy} or bring more varied records"
    )


def _title(kind: RuleKind) -> tuple[str, str]:
    """Return name and remedy of rules that the whole table can break; the others compare it with itself."""
    match kind:
        case RuleKind.DISTINCT:
            return "distinct l-diversity", "lower l"
        case RuleKind.ENTROPY:
            return "entropy l-diversity", "lower l"
        case RuleKind.RECURSIVE:
            return "recursive (c,l)-diversity", "raise c, lower l"
        case RuleKind.ALPHA:
            return "(alpha,k)-anonymity", "raise alpha"
        case _:
            return kind.name.lower(), "weaken it"
