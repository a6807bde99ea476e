"""What OpenLineage receives about a publication: its source, its table and its guarantees.

Only the OpenLineage provider calls this module, so its package is imported only here.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_privacy_release.task.facets import SCHEMAS, standard_facets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privacy_release.workarea.references import Published, ReportRef, StagedRelease

FACET = "privacyRelease"


def lineage_of(
    staged: "StagedRelease",
    published: "Published",
    report: "ReportRef",
    dictionary: "Mapping[str, Any] | None" = None,
    owner: str = "",
) -> Any:
    """Return the lineage of a publication, an `OperatorLineage`.

    Its output has a facet `privacyRelease`: release, version, rows, method, rules with measured figures, and
    privacy loss. The standard facets are added, see `standard_facets`. Source and table are named by their
    addresses; no figure of the source is included.

    Args:
        staged: Reference to the staged release that was published.
        published: Reference to the published release.
        report: Findings of the verification.
        dictionary: Data dictionary of the release; None: no standard facets are added.
        owner: Owner of the table.
    """
    from airflow.providers.openlineage.extractors import (  # type: ignore[import-not-found]  # optional
        OperatorLineage,
    )
    from openlineage.client.event_v2 import Dataset  # type: ignore[import-not-found]  # optional

    facet = _facet(
        FACET,
        release=published.release,
        version=published.version,
        rows=published.rows,
        method=staged.method,
        guarantees=[
            {"rule": finding["rule"], "measured": finding["measured"]} for finding in report.findings
        ],
        loss=staged.loss,
    )
    sources = staged.source.tables or {"": staged.source}
    inputs = {table: dataset_name(source.uri) for table, source in sources.items()}
    facets = {FACET: facet}
    if dictionary is not None:
        standard = standard_facets(dictionary, report.findings, staged.source.to_ref(), inputs, owner)
        facets |= {name: _facet(name, **fields) for name, fields in standard.items()}
    target_space, target = dataset_name(f"{published.lake}/{published.table}")
    return OperatorLineage(
        inputs=[Dataset(namespace=space, name=name) for space, name in inputs.values()],
        outputs=[Dataset(namespace=target_space, name=target, facets=facets)],
    )


def dataset_name(uri: str) -> tuple[str, str]:
    """Return namespace and name of an address by OpenLineage's naming convention.

    >>> dataset_name("s3://bucket/raw/people.parquet")
    ('s3://bucket', 'raw/people.parquet')
    >>> dataset_name("/data/lake/people")
    ('file', '/data/lake/people')
    """
    address = urlsplit(uri)
    if address.scheme in ("", "file"):
        return "file", address.path
    return f"{address.scheme}://{address.netloc}", address.path.strip("/") or "/"


def _facet(name: str, **fields: Any) -> Any:
    """Return a facet in OpenLineage's own class, whether or not its version knows the standard ones."""
    import attr
    from openlineage.client.generated.base import (  # type: ignore[import-not-found]  # optional
        DatasetFacet,
    )

    kind = f"{name[0].upper()}{name[1:]}DatasetFacet"
    made = attr.make_class(kind, {field: attr.ib() for field in fields}, bases=(DatasetFacet,), kw_only=True)
    if name in SCHEMAS:
        setattr(made, "_get_schema", staticmethod(lambda: SCHEMAS[name]))  # noqa: B010  mypy knows no such class
    return made(**fields)
