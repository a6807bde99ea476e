"""What OpenLineage is told of a publication: from which source, to which table, with which guarantees.

Only the OpenLineage provider calls it, so its package is imported here when it is there.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from privacy_release.work.references import Published, StagedRef

FACET = "privacyRelease"


def lineage_of(staged: "StagedRef", published: "Published", report: Any) -> Any:
    """The lineage of a publication, an `OperatorLineage`.

    Its output has a facet `privacyRelease`: release, version, rows, method, rules with what was measured, and
    privacy loss. Source and table are named by their addresses; no figure of the source is told.
    """
    from airflow.providers.openlineage.extractors import (  # type: ignore[import-not-found]  # optional
        OperatorLineage,
    )
    from openlineage.client.event_v2 import Dataset  # type: ignore[import-not-found]  # optional

    facet = _facet_class()(
        release=published["release"],
        version=published["version"],
        rows=published["rows"],
        method=staged["method"],
        guarantees=[
            {"rule": finding["rule"], "measured": finding["measured"]} for finding in report["findings"]
        ],
        loss=staged["loss"],
    )
    sources = staged["source"].get("tables", {"": staged["source"]}).values()
    inputs = [dataset_name(source["uri"]) for source in sources]
    target_space, target = dataset_name(f"{published['lake']}/{published['table']}")
    return OperatorLineage(
        inputs=[Dataset(namespace=space, name=name) for space, name in inputs],
        outputs=[Dataset(namespace=target_space, name=target, facets={FACET: facet})],
    )


def dataset_name(uri: str) -> tuple[str, str]:
    """Namespace and name of an address by OpenLineage's naming convention.

    >>> dataset_name("s3://bucket/raw/people.parquet")
    ('s3://bucket', 'raw/people.parquet')
    >>> dataset_name("/data/lake/people")
    ('file', '/data/lake/people')
    """
    address = urlsplit(uri)
    if address.scheme in ("", "file"):
        return "file", address.path
    return f"{address.scheme}://{address.netloc}", address.path.strip("/") or "/"


def _facet_class() -> Any:
    """The facet as a class of OpenLineage's own kind."""
    import attr
    from openlineage.client.generated.base import (  # type: ignore[import-not-found]  # optional
        DatasetFacet,
    )

    fields = {name: attr.ib() for name in ("release", "version", "rows", "method", "guarantees", "loss")}
    return attr.make_class("PrivacyReleaseDatasetFacet", fields, bases=(DatasetFacet,), kw_only=True)
