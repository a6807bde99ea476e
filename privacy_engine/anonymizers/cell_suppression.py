"""The suppression model: a cell is released unchanged or not at all.

As a hierarchy it has one level: every value is directly under the root. So any method that recodes by
hierarchies follows the model once the table's domains are flat, and every figure of `utility` is valid for
its release: a cell that a class does not share costs the whole domain.
"""

from dataclasses import replace
from enum import StrEnum

from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.encoding import Domain, EncodedTable, OrderedDomain, domain_labels
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.vocabulary import Role


class CellModel(StrEnum):
    """What becomes of a cell that its class does not share."""

    GENERALIZATION = "generalization"  # an interval, or a node of the hierarchy
    SUPPRESSION = "suppression"  # nothing: `*`, or a null in the bounds of a number or date


def with_flat_domains(encoded: EncodedTable) -> EncodedTable:
    """The same records; each quasi-identifier is a hierarchy of its values and the root.

    Codes keep their meaning: the leaves are the values in their order. Intervals are no longer formed: both
    bounds of a number or date are its value, or null if it is suppressed. If it may be missing in the source,
    a null would be ambiguous: such an attribute is released as text, with `*`.
    """
    flat = tuple(Hierarchy.flat(domain_labels(domain)) for domain in encoded.domains)
    domains: tuple[Domain, ...] = flat
    by_name = dict(zip(encoded.quasi_identifiers, flat, strict=True))
    attributes = tuple(
        Attribute(
            name=a.name,
            role=Role.QUASI_IDENTIFIER,
            hierarchy=by_name[a.name],
            nullable=a.nullable,
            meaning=a.about,
            unlisted=a.is_free_text or a.unlisted,
            free_text=a.free_text,
        )
        if a.role is Role.QUASI_IDENTIFIER
        else a
        for a in encoded.schema.attributes
    )
    ordered = {
        a.name: (a, domain)
        for a, domain in zip(encoded.schema.quasi_identifiers, encoded.domains, strict=True)
        if isinstance(domain, OrderedDomain) and a.categories is None and not a.nullable
    }
    return replace(
        encoded,
        schema=replace(encoded.schema, attributes=attributes),
        domains=domains,
        ordered=ordered,
    )


def modelled(encoded: EncodedTable, model: CellModel) -> EncodedTable:
    """The table as a model sees it: itself, or with flat domains."""
    return with_flat_domains(encoded) if model is CellModel.SUPPRESSION else encoded
