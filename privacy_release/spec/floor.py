"""The floor policy: the minimum for every release of a deployment, whatever policy its own file names.

It is configured next to the lake and the ledger, not in the include folder, so authors of release files
cannot lower it. Its file has the fields of any policy, and in addition: `approval: true` if nothing may be
published without an approval, `signed: required`, and `insensitive: as_quasi_identifiers` if the k of its
k-anonymity counts every released column that is not sensitive.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_engine.errors import PrivacyEngineError, VerificationError
from privacy_release.config.problems import wrong
from privacy_release.config.settings import SECTION, VARIABLES, setting
from privacy_release.spec.lines import located
from privacy_release.spec.reading import LARGEST_YAML, mapping_of, read_file

if TYPE_CHECKING:
    from privacy_engine.verification.policy import ReleasePolicy

OPTION = "floor_policy"
_DECLARED, _AS_QUASI = "as_declared", "as_quasi_identifiers"
_TAKE_CARE = (
    f"it is the {OPTION} of section [{SECTION}] or {VARIABLES[OPTION]}; nothing is released without it"
)


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The requirements for every release.

    Attributes:
        path: Path of its file.
        sha256: SHA-256 of the file's bytes, as manifests record it.
        policy: Minimum of every policy.
        approval: Whether every release must be approved.
        signed: Whether every release must be signed.
    """

    path: Path
    sha256: str
    policy: "ReleasePolicy"
    approval: bool = False
    signed: bool = False


def floor_policy() -> Floor | None:
    """Return the floor policy of this deployment. None if there is none.

    Raises:
        SpecError: If one is set but cannot be read, so that no release runs without it.
    """
    chosen = setting(OPTION)
    return None if chosen is None else read_floor(Path(chosen).expanduser(), _TAKE_CARE)


def under_floor(policy: "ReleasePolicy", floor: Floor | None) -> "ReleasePolicy":
    """Return the policy of a release combined with the floor policy."""
    return policy if floor is None else policy.with_floor(floor.policy)


def require_floor(floored: Mapping[str, str] | None, *, approved: bool, signed: bool) -> None:
    """Raise if a release was not verified and approved under the current floor, or lacks a signature.

    Args:
        floored: Floor policy in the verification report. None: there was none.
        approved: Whether the release was approved.
        signed: Whether the release is going to be signed.

    Raises:
        VerificationError: If the floor policy is another one, or requires an approval or a signature.
        SpecError: If the floor policy cannot be read.
    """
    floor = floor_policy()
    if floor is None:
        return
    if (floored or {}).get("sha256") != floor.sha256:
        raise VerificationError(
            f"the release was not verified under the floor policy {floor.path}, which was set or changed "
            "since; verify it again"
        )
    if floor.approval and not approved:
        raise VerificationError(
            f"the floor policy {floor.path} requires an approval of every release, but there is none; "
            "require an approval and run the release again"
        )
    require_signature(floor, signed=signed)


def require_signature(floor: Floor | None, *, signed: bool) -> None:
    """Raise if the floor policy requires a signature, but the release is not to be signed.

    Raises:
        VerificationError: See above.
    """
    if floor is not None and floor.signed and not signed:
        raise VerificationError(
            f"the floor policy {floor.path} requires signed releases, but there is no key: add the "
            f"Airflow connection signing_default, or name the file of a key as {VARIABLES['signing_key']}"
        )


def weaker_than_floor(policy: "ReleasePolicy", floor: Floor | None) -> str | None:
    """Return where a policy is weaker than the floor, which would mislead its readers, with the remedy."""
    if floor is None or not (found := policy.weaker_than(floor.policy)):
        return None
    return (
        f"{'; '.join(found)} of the floor policy {floor.path}; require at least as much, or remove the rule, "
        "because the floor applies anyway"
    )


def _of_all_columns(policy: "ReleasePolicy", path: Path) -> "ReleasePolicy":
    """Count the k of a policy's k-anonymity over every released column that is not sensitive."""
    from privacy_engine.verification.all_columns import AllColumnsKAnonymity
    from privacy_engine.verification.models import KAnonymity

    found = [model.k for model in policy.require if isinstance(model, KAnonymity)]
    if not found:
        raise wrong(
            path,
            f"insensitive: {_AS_QUASI} requires k_anonymity, whose k it changes; add it to require",
        )
    return replace(policy, all_columns=(*policy.all_columns, AllColumnsKAnonymity(k=max(found))))


def read_floor(path: Path, note: str) -> Floor:
    """Read a floor policy from its file.

    Args:
        path: Absolute path of the file.
        note: End of the message of an error.

    Raises:
        SpecError: If it cannot be read.
    """
    from privacy_engine.verification.policy import ReleasePolicy

    if not path.is_absolute():
        raise wrong(path, f"must be an absolute path: {note}", " ")
    try:
        data = read_file(path, LARGEST_YAML)
        fields = mapping_of(data, path)
        approval, signed = fields.pop("approval", False), fields.pop("signed", "optional")
        insensitive = fields.pop("insensitive", _DECLARED)
        if not isinstance(approval, bool):
            raise wrong(path, "approval must be true or false; correct it")
        if signed not in ("required", "optional"):
            raise wrong(path, "signed must be required or optional; correct it")
        if insensitive not in (_DECLARED, _AS_QUASI):
            raise wrong(path, f"insensitive must be {_AS_QUASI} or {_DECLARED}; correct it")
        policy = ReleasePolicy.from_dict(fields)
        if insensitive == _AS_QUASI:
            policy = _of_all_columns(policy, path)
    except PrivacyEngineError as error:
        raise wrong("the floor policy", f"{located(path, error)}; {note}", " ") from None
    return Floor(
        path=path,
        sha256=hashlib.sha256(data).hexdigest(),
        policy=policy,
        approval=approval,
        signed=signed == "required",
    )
