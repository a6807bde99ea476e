"""A private release as a record of the Differential Privacy Deployments Registry."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from privacy_engine.errors import SpecError
from privacy_release.cli.main import DONE, WRONG, main
from privacy_release.lake.store import Lake
from privacy_release.manifest.manifest import Manifest
from privacy_release.reports.registry import CURATORS, SECTORS, Deployment, deployment_record
from tests.reading import publish_people, publish_synthetic

SAID = [
    *("--curator", "Example Clinic", "--curator-type", "Nonprofit", "--intended-use", "Research on care."),
    *("--region", "Europe", "--author", "A. Author", "--sector", "Healthcare"),
]
PUBLISHER = Deployment(
    curator="Clinic", curator_type="Nonprofit", intended_use="Research", region="Europe", authors=["A"]
)
TEXT = {"type": "string", "minLength": 1}


def record(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """A JSON schema of an object with these fields and no others."""
    fields = {**required, **(optional or {})}
    return {"type": "object", "required": list(required), "properties": fields, "additionalProperties": False}


# What the registry's schema asks of the fields that are written here, and which values it knows.
RULES = record(
    {
        "url_slug": {"type": "string", "pattern": "^[a-z0-9-]+$"},
        "deployment": record(
            {
                "basic": record(
                    {
                        "name": TEXT,
                        "data_curators": {
                            "type": "array",
                            "minItems": 1,
                            "items": record(
                                {"data_curator_name": TEXT, "data_curator_type": {"enum": list(CURATORS)}}
                            ),
                        },
                        "description": TEXT,
                        "intended_use": TEXT,
                        "data_product_type": {"enum": ["Dataset", "Synthetic data"]},
                        "data_product_region": TEXT,
                        "publication_date": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"},
                    },
                    {"data_product_sector": {"enum": list(SECTORS)}},
                ),
                "administrative": record(
                    {
                        "status": {"const": "Draft"},
                        "registry_authors": {"type": "array", "minItems": 1, "items": TEXT},
                        "tier": {"enum": [1, 2, 3]},
                    }
                ),
            },
            {
                "dp_variant": record(
                    {},
                    {
                        "variant_name": {"enum": ["Pure DP", "Approximate DP"]},
                        "data_domain": TEXT,
                        "unprotected_quantities": TEXT,
                    },
                ),
                "privacy_loss": record(
                    {},
                    {
                        "privacy_unit": TEXT,
                        "privacy_unit_details": TEXT,
                        "number_of_privacy_units": {"type": "integer"},
                        "privacy_parameters": record(
                            {}, {"epsilon": {"type": "number"}, "delta": {"type": "number"}}
                        ),
                    },
                ),
                "deployment_model": record(
                    {},
                    {
                        "model_name": {"enum": ["Local", "Central"]},
                        "model_name_details": TEXT,
                        "release_type": {"enum": ["One release", "Many releases"]},
                        "access_type": {"enum": ["Interactive", "Non-interactive"]},
                    },
                ),
                "implementation": record(
                    {}, {"mechanisms": TEXT, "composition": TEXT, "post_processing": TEXT}
                ),
            },
        ),
    }
)


def test_a_synthetic_release_is_written_by_the_registrys_schema(
    tmp_path: Path, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_synthetic(tmp_path, lake)
    assert main(["registry", f"{lake.root}/synthetic", "1", *SAID]) == DONE
    written = yaml.safe_load(capsys.readouterr().out)
    Draft7Validator(RULES).validate(written)
    reported = written["deployment"]
    assert reported["dp_variant"]["variant_name"] == "Pure DP"
    assert reported["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0}
    assert reported["basic"]["data_product_type"] == "Synthetic data"
    assert reported["deployment_model"]["release_type"] == "One release"
    assert "OpenDP" in reported["implementation"]["mechanisms"]
    assert written["url_slug"].startswith("example-clinic-synthetic-20")


def test_a_release_without_differential_privacy_is_refused_with_a_reason(
    tmp_path: Path, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_people(tmp_path, lake)
    assert main(["registry", f"{lake.root}/people", "1", *SAID]) == WRONG
    output = capsys.readouterr()
    assert output.out == ""
    assert "accepts only differentially private releases, but mondrian claims no epsilon" in output.err


def manifest(neighbours: str, delta: float = 0.0, **model: int) -> Manifest:
    return Manifest.from_dict(
        {
            "method": "m",
            "rows": 90,
            "loss": {"epsilon": 1.0, "delta": delta, "neighbours": neighbours},
            "model": {"mechanisms": [{"mechanism": "discrete_laplace"}], **model},
            "software": {"name": "privacy-release", "version": "1"},
        }
    )


@pytest.mark.parametrize(
    ("neighbours", "units"), [("add_remove", None), ("replace_one", 100), ("replace_person", 40)]
)
def test_the_number_of_units_is_reported_only_where_the_promise_takes_it_as_public(
    neighbours: str, units: int | None
) -> None:
    found = deployment_record(
        manifest(neighbours, source_rows=100, source_persons=40),
        PUBLISHER,
        table="t",
        published="2026-01-02",
        releases=2,
    )
    Draft7Validator(RULES).validate(found)
    assert found["deployment"]["privacy_loss"].get("number_of_privacy_units") == units
    hidden = found["deployment"]["dp_variant"]["unprotected_quantities"]
    assert (hidden == "None.") == (units is None)
    assert found["deployment"]["deployment_model"]["release_type"] == "Many releases"


def test_delta_makes_it_approximate() -> None:
    found = deployment_record(
        manifest("replace_one", delta=1e-6, source_rows=9),
        PUBLISHER,
        table="t",
        published="2026-01-02",
        releases=1,
    )["deployment"]
    assert found["dp_variant"]["variant_name"] == "Approximate DP"
    assert found["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}


def test_random_answers_without_a_bound_for_a_whole_record_are_refused() -> None:
    reported = Manifest.from_dict({"method": "trr", "loss": None, "randomization": {}})
    with pytest.raises(SpecError, match="trr claims no epsilon for a whole record"):
        deployment_record(reported, PUBLISHER, table="t", published="2026-01-02", releases=1)


@pytest.mark.parametrize("wrong", [{"curator_type": "Bank"}, {"sector": "Sports"}, {"authors": []}])
def test_words_that_the_registry_does_not_know_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        Deployment(**{**vars(PUBLISHER), **wrong})
