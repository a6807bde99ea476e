"""The standard OpenLineage facets for a release, as plain dictionaries in their published JSON schemas.

They are built from the data dictionary and the findings, which are public. `masking` states for each released
column whether it hides the source's values. `dataQualityAssertions` is attached to the released table, which
is what was measured, although the OpenLineage specification intends it for inputs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from privacy_release.reports.columns import Form

# The version of each schema that is used.
SCHEMAS: Mapping[str, str] = {
    name: f"https://openlineage.io/spec/facets/{version}/{kind}.json#/$defs/{kind}"
    for name, version, kind in (
        ("schema", "1-2-0", "SchemaDatasetFacet"),
        ("columnLineage", "1-2-0", "ColumnLineageDatasetFacet"),
        ("dataQualityAssertions", "1-1-0", "DataQualityAssertionsDatasetFacet"),
        ("ownership", "1-0-1", "OwnershipDatasetFacet"),
    )
}
# Forms that show a value of the source unchanged.
_SHOWN = frozenset({Form.VALUE, Form.TABLE})
# Forms whose cells correspond to no single cell of the source.
_COUNTED = frozenset({Form.DRAWN})

Source = tuple[str, str]  # namespace and name


def standard_facets(
    dictionary: Mapping[str, Any],
    findings: Sequence[Mapping[str, Any]],
    source: Mapping[str, Any],
    datasets: Mapping[str, Source],
    owner: str,
) -> dict[str, dict[str, Any]]:
    """Return facet name -> its fields, without `_producer` and `_schemaURL`, which the client writes.

    Args:
        dictionary: Data dictionary of the release.
        findings: Findings of the verification.
        source: `SourceRef` of the released table, as a mapping.
        datasets: Data sets of the source by table name; the empty name for a single table.
        owner: Owner of the table.
    """
    columns = dictionary["columns"]
    facets: dict[str, dict[str, Any]] = {
        "schema": {
            "fields": [
                {"name": c["name"], "type": c["type"], "description": c["meaning_of_form"]} for c in columns
            ]
        },
        "dataQualityAssertions": {
            "assertions": [
                {"assertion": finding["rule"], "success": finding["passed"]} for finding in findings
            ]
        },
        "ownership": {"owners": [{"name": owner, "type": "MAINTAINER"}]},
    }
    if not source.get("transforms"):  # the columns that a user's transform reads are unknown
        facets["columnLineage"] = _column_lineage(columns, source, dictionary.get("tables", {}), datasets)
    return facets


def _column_lineage(
    columns: Sequence[Mapping[str, Any]],
    source: Mapping[str, Any],
    tables: Mapping[str, Sequence[str]],
    datasets: Mapping[str, Source],
) -> dict[str, Any]:
    """Return the columns that each released one is made from, and the quasi-identifiers' influence."""
    grouped = dict.fromkeys(
        c["source"] for c in columns if c["role"] == "quasi_identifier" and _masks(c) and c["source"]
    )
    return {
        "fields": {
            c["name"]: {
                "inputFields": [
                    _input(dataset, field, _direct(c))
                    for dataset, field in _origins(c["source"], source, tables, datasets)
                ]
            }
            for c in columns
        },
        "dataset": [
            _input(dataset, field, {"type": "INDIRECT", "subtype": "GROUP_BY", "masking": True})
            for name in grouped
            for dataset, field in _origins(name, source, tables, datasets)
        ],
    }


def _origins(
    name: str | None,
    source: Mapping[str, Any],
    tables: Mapping[str, Sequence[str]],
    datasets: Mapping[str, Source],
) -> Iterator[tuple[Source, str]]:
    """Return data set and field of the source that an attribute was read, or derived, from."""
    if name is None:
        return
    for table, own in source.get("tables", {"": source}).items():
        if name in tables.get(table, [name]):
            derived = own.get("derived", {}).get(name)
            for field in _derived_from(derived) if derived else [name]:
                yield datasets[table], field


def _derived_from(derivation: Mapping[str, Any]) -> list[str]:
    """Return the columns of a derivation. Anything that begins with a digit is an ISO date."""
    (of,) = derivation.values()
    return [field for field in ([of] if isinstance(of, str) else of) if not field[:1].isdigit()]


def _masks(column: Mapping[str, Any]) -> bool:
    return Form(column["form"]) not in _SHOWN or column.get("changed", 0) > 0


def _direct(column: Mapping[str, Any]) -> dict[str, Any]:
    masking = _masks(column)
    subtype = "TRANSFORMATION" if masking else "IDENTITY"
    return {
        "type": "DIRECT",
        "subtype": "AGGREGATION" if Form(column["form"]) in _COUNTED else subtype,
        "description": column["meaning_of_form"],
        "masking": masking,
    }


def _input(dataset: Source, field: str, transformation: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "namespace": dataset[0],
        "name": dataset[1],
        "field": field,
        "transformations": [dict(transformation)],
    }
