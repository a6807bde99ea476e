"""The schema of the simulated bank-card customers."""

from deploy.local.samples.customers import CLASS, CLASSES, LISTED, NUMBERS, bank_customers
from privacy_engine import DataSchema

__all__ = ["CLASS", "CLASSES", "LISTED", "NUMBERS", "bank_customers", "bank_schema"]


def bank_schema(*, released_class: bool = True) -> DataSchema:
    """All attributes are quasi-identifiers; the class is released as it is, or randomized like them."""
    numbers = {
        name: {"role": "quasi_identifier", "kind": "numeric", "bounds": list(bounds)}
        for name, (bounds, _) in NUMBERS.items()
    }
    listed = {name: {"role": "quasi_identifier", "categories": list(found)} for name, found in LISTED.items()}
    role = "insensitive" if released_class else "sensitive"
    return DataSchema.from_dict({**numbers, **listed, CLASS: {"role": role, "categories": list(CLASSES)}})
