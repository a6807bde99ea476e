"""The suppression model: a cell is released as it is or as `*`, nothing in between.

As hierarchies it is one level: every value stands directly under the root. So any method that recodes by
hierarchies follows the model once the table's domains are flat, and every figure of `utility` is true of
its release: a cell that a class does not share costs the whole domain.
"""

from dataclasses import replace
from enum import StrEnum

from privacy_engine.tables.encoding import Domain, EncodedTable, domain_labels
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import Attribute
from privacy_engine.vocabulary import Role


class CellModel(StrEnum):
    """What becomes of a cell that its class does not share."""

    GENERALIZATION = "generalization"  # an interval, or a node of the hierarchy
    SUPPRESSION = "suppression"  # `*`


def with_flat_domains(encoded: EncodedTable) -> EncodedTable:
    """The same records; each quasi-identifier is a hierarchy of its values and the root.

    Codes keep their meaning: the leaves are the values in their order. Intervals are no longer formed, so
    ordered attributes are released as text.
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
        )
        if a.role is Role.QUASI_IDENTIFIER
        else a
        for a in encoded.schema.attributes
    )
    return replace(encoded, schema=replace(encoded.schema, attributes=attributes), domains=domains)


def modelled(encoded: EncodedTable, model: CellModel) -> EncodedTable:
    """The table as a model sees it: itself, or with flat domains."""
    return with_flat_domains(encoded) if model is CellModel.SUPPRESSION else encoded
