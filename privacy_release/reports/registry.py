"""Export a differentially private release to the Differential Privacy Deployments Registry.

The registry (registry.opendp.org) keeps one YAML file per deployment. Records follow its schema,
`schemas/deployments-schema.yaml` of the repository opendp/deployments-registry-data as of commit 057e5d8.
Facts that a release does not contain (who publishes it, what for, where) are requested from the user. The
record is a draft for its authors to complete and submit.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privacy_engine.errors import SpecError
from privacy_release.manifest.manifest import Manifest
from privacy_release.manifest.sections import LossSection
from privacy_release.reports.text import MECHANISMS, neighbours_in_words

SCHEMA_VERSION = "057e5d8"
CURATORS = ("Government", "Industry", "Nonprofit")
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
_UNITS: Mapping[str, str] = {
    "replace_person": "User-level: all records of one person",
    "replace_one": "One record",
    "add_remove": "One record",
}


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """The publisher's statements about a deployment, in the words of the registry.

    Raises:
        ValueError: If a type or sector is unknown to the registry, or there is no author.
    """

    curator: str
    curator_type: str
    intended_use: str
    region: str
    authors: Sequence[str]
    sector: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        if self.curator_type not in CURATORS:
            raise ValueError(f"curator type must be one of {', '.join(CURATORS)}")
        if self.sector is not None and self.sector not in SECTORS:
            raise ValueError(f"sector must be one of {', '.join(SECTORS)}")
        if not self.authors:
            raise ValueError("a record must have at least one author")


def deployment_record(
    manifest: Manifest, said: Deployment, *, table: str, published: str, releases: int
) -> dict[str, Any]:
    """Return the record as plain values.

    Args:
        manifest: Manifest of the release.
        said: Statements of its publisher.
        table: Name of the release table.
        published: ISO day of the table's first release.
        releases: Number of releases of the table, including this one.

    Raises:
        SpecError: If the release is not differentially private as a whole.
    """
    loss = manifest.loss
    if loss is None or not loss.claimed.must_be_booked:
        raise SpecError(
            f"the registry accepts only differentially private releases, but {manifest.method} claims no "
            "epsilon for a whole record; export one of a synthesizer, or of a randomizer that has one"
        )
    return {
        "url_slug": _slug(said.curator, table, published[:4]),
        "deployment": {
            "basic": _basic(manifest, said, table, published),
            "dp_variant": {
                "variant_name": "Approximate DP" if loss.delta else "Pure DP",
                "data_domain": "The columns and their domains are those of the release's data dictionary; "
                "they come from a public schema, not from the data.",
                "unprotected_quantities": _unprotected(manifest, loss.neighbours),
            },
            "privacy_loss": _privacy_loss(manifest, loss),
            "deployment_model": {
                "model_name": "Central",
                "release_type": "Many releases" if releases > 1 else "One release",
                "access_type": "Non-interactive",
            }
            | _model_details(manifest),
            "implementation": _implementation(manifest),
            "administrative": {"status": "Draft", "registry_authors": list(said.authors), "tier": 2},
        },
    }


def _basic(manifest: Manifest, said: Deployment, table: str, published: str) -> dict[str, Any]:
    drawn = manifest.model is not None
    kind = "Synthetic records" if drawn else "Records whose values were randomized one by one"
    record = {
        "name": table,
        "data_curators": [{"data_curator_name": said.curator, "data_curator_type": said.curator_type}],
        "description": said.description or f"{kind}, made by {manifest.method}.",
        "intended_use": said.intended_use,
        "data_product_type": "Synthetic data" if drawn else "Dataset",
        "data_product_region": said.region,
        "publication_date": published,
    }
    return record if said.sector is None else record | {"data_product_sector": said.sector}


def _privacy_loss(manifest: Manifest, loss: LossSection) -> dict[str, Any]:
    neighbours = loss.neighbours
    relation = neighbours_in_words(neighbours, participants=manifest.noisy_participants)
    parameters = {"epsilon": loss.epsilon} | ({"delta": loss.delta} if loss.delta else {})
    record: dict[str, Any] = {
        "privacy_unit": _UNITS[neighbours],
        "privacy_unit_details": f"Adjacent data sets are equal but {relation}.",
        "privacy_parameters": parameters,
    }
    units = _units(manifest, neighbours)
    return record if units is None else record | {"number_of_privacy_units": units}


def _units(manifest: Manifest, neighbours: str) -> int | None:
    """Return the number of privacy units if the guarantee treats it as public."""
    if neighbours == "add_remove":
        return None
    if manifest.model is None:
        return manifest.rows
    return manifest.model.source_persons if neighbours == "replace_person" else manifest.model.source_rows


def _unprotected(manifest: Manifest, neighbours: str) -> str:
    if neighbours == "add_remove" or manifest.noisy_participants:
        return "None."
    return f"The number of {'persons' if neighbours == 'replace_person' else 'records'} in the source."


def _model_details(manifest: Manifest) -> dict[str, str]:
    if manifest.model is not None:
        return {}
    return {
        "model_name_details": "Each value was randomized separately, as in the local model, but by the "
        "curator, who has the true values."
    }


def _implementation(manifest: Manifest) -> dict[str, str]:
    made_by = manifest.method
    if manifest.software is not None:
        made_by = f"{made_by} of {manifest.software.name} {manifest.software.version}"
    spends = manifest.model.mechanisms if manifest.model is not None else ()
    names = dict.fromkeys(MECHANISMS.get(s.mechanism, (s.mechanism,))[0] for s in spends)
    used = ", ".join(names) or "Randomized response with a public channel for each attribute"
    zcdp = ", as zero-concentrated DP" if any(spend.rho is not None for spend in spends) else ""
    record = {
        "mechanisms": f"{used}. {made_by}"
        + ("; noise from the library OpenDP, which is safe for floating-point numbers." if spends else "."),
        "composition": f"Sequential{zcdp}. The loss was booked in a ledger with a limit before the data were "
        "read.",
    }
    if spends:
        record["post_processing"] = "Records are sampled from the measured model."
    return record


def _slug(*parts: str) -> str:
    return "-".join(re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") for part in parts)
