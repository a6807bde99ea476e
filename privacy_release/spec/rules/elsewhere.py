"""Checks outside of the catalogue of rules, and the reasons for their location.

A test reads the source: a function named `refuse_...` or `require_...` must be called from a rule or be
listed here, and listed functions must exist.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Reason(StrEnum):
    """Reason why a check needs more than the facts of a release."""

    LOCK = "lock"  # another run, or the deployment, may have changed it since a rule was judged
    PAID = "paid"  # it is part of the answer that was paid for, and every retry repeats it
    BYTES = "bytes"  # only the bytes show it: whether they are the recorded ones, and their content
    ARGUMENTS = "arguments"  # arguments of one call, a section of a file, or a connection when it is used


@dataclass(frozen=True, kw_only=True)
class Exemption:
    """A check outside of the catalogue.

    Attributes:
        module: Dotted name of its module.
        name: Qualified name of the function in the module.
        reason: Reason for its location.
        about: Subject of the check.
    """

    module: str
    name: str
    reason: Reason
    about: str


_LISTED: Mapping[Reason, Mapping[str, str]] = MappingProxyType(
    {
        Reason.LOCK: {
            "privacy_release.explore.sources:require_all_left": "what is left of the budget, for all choices",
            "privacy_release.lake.layout:require_history": "whose superseded releases a table keeps",
            "privacy_release.lake.layout:require_mode": "which releases the table keeps",
            "privacy_release.lake.rows:refuse_other_form": "the form of intervals in the table",
            "privacy_release.lake.rows:refuse_other_types": "the types of columns in the table",
            "privacy_release.spec.classification:require_classified": "the classification, at publication",
            "privacy_release.spec.floor:require_floor": "the floor policy, at publication",
            "privacy_release.budget.budget:require_left": "what is left of the budget",
            "privacy_release.budget.secrets:require_same_secret": "the secret of the last release",
            "privacy_release.steps.memberships.recording:refuse_unseen": "releases verification did not see",
            "privacy_release.steps.memberships.regions:require_one_cut": "the fragments of earlier releases",
            "privacy_release.steps.publish:require_published_by": "the run that published a release",
        },
        Reason.PAID: {
            "privacy_release.budget.budget:_of": "a noisy number of records that is too small",
        },
        Reason.BYTES: {
            "airflow_privacy_release.task.chain:require_inside": "the files of a reference",
            "privacy_release.evidence.archive:require_of_release": "the release that an archive is about",
            "privacy_release.expectations.gate:refuse_missing_columns": "the columns of the table",
            "privacy_release.lake.log:Publication.require_readable": "a release of an unknown format",
            "privacy_release.lake.log_faults:refuse_damaged_log": "the log of a table",
            "privacy_release.lake.log_faults:refuse_lost_log": "the log of a table",
            "privacy_release.proof.check:_Check.require_no_others": "the rows of a table",
            "privacy_release.proof.check:_Check.require_plain": "the features of a table",
            "privacy_release.sources.databases.types:require_short": "the length of values",
            "privacy_release.sources.identifiers:Repeats.require_none": "repeated identifiers",
            "privacy_release.sources.reading:require_left": "records without nulls",
            "privacy_release.sources.records:SourceReading.require_alike": "the types of several files",
            "privacy_release.sources.records:SourceReading.require_fit": "records that fit the schema",
            "privacy_release.sources.text.scan:TextScan.require_clean": "identifiers in text",
            "privacy_release.sources.uniqueness:NearlyUnique.require_none": "nearly unique columns",
            "privacy_release.sources.versions:require_understood": "the features of a Delta table",
            "privacy_release.steps.attacks.shadows:require_enough": "the number of people for an attack",
            "privacy_release.steps.attacks.tries:require_attacked": "the attacks in a report",
            "privacy_release.steps.memberships.earlier:MembershipFile.require_recorded": "earlier releases",
            "privacy_release.steps.verify:require_no_counterfeits": "the columns of staged files",
            "privacy_release.workarea.parquet:require_unchanged": "the hash of a file",
            "privacy_release.workarea.references.files:Stored.require_unchanged": "the hash of a file",
            "privacy_release.workarea.people:require_form": "the form of the identifiers in a stored file",
            "privacy_release.config.places:require_below": "the addresses in the metadata of a table",
        },
        Reason.ARGUMENTS: {
            "airflow_privacy_release.operators.release:require_policy": "the policy of a task with a budget",
            "privacy_release.expectations.suite:require_right": "the form of a suite",
            "privacy_release.query.columns:Meant.require_known": "the values that a query asks for",
            "privacy_release.query.columns:require_in_domain": "the values that a query asks for",
            "privacy_release.reports.comparison:require_comparable": "the releases to compare",
            "privacy_release.workarea.engines:require_sealed": "an engine of other machines",
            "privacy_release.workarea.spark_session:SparkCluster.require_encryption": "Spark's connection",
            "privacy_release.workarea.spark_session:SparkCluster.require_reachable": "the address of Spark",
        },
    }
)

EXEMPTIONS: tuple[Exemption, ...] = tuple(
    Exemption(module=module, name=name, reason=reason, about=about)
    for reason, listed in _LISTED.items()
    for (module, _, name), about in ((place.partition(":"), about) for place, about in listed.items())
)
