"""The floor policy: what every release of a deployment must keep, whatever policy its own file names.

It is set beside the lake and the ledger, not in the include folder, so who writes release files cannot lower
it. In the file of the floor stands what stands in any policy, and besides: `approval: true` where nothing may
be published that nobody approved, `signed: required`, and `insensitive: as_quasi_identifiers` where the k of
its k-anonymity counts every released column that is not sensitive.
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
    """What must hold for every release.

    Attributes:
        path: of its file.
        sha256: of the bytes of the file, as manifests record it.
        policy: the least that every policy asks for.
        approval: whether somebody must approve every release.
        signed: whether every release must be signed.
    """

    path: Path
    sha256: str
    policy: "ReleasePolicy"
    approval: bool = False
    signed: bool = False


def floor_policy() -> Floor | None:
    """The floor of this deployment; None where none is set.

    Raises:
        SpecError: if one is set and cannot be read, so that no release goes on without it.
    """
    chosen = setting(OPTION)
    return None if chosen is None else read_floor(Path(chosen).expanduser(), _TAKE_CARE)


def under_floor(policy: "ReleasePolicy", floor: Floor | None) -> "ReleasePolicy":
    """What a release must keep: its own policy and the floor, both."""
    return policy if floor is None else policy.with_floor(floor.policy)


def require_floor(floored: Mapping[str, str] | None, *, approved: bool, signed: bool) -> None:
    """Refuse a release that was not verified and approved under the floor of today, or is not to be signed.

    Args:
        floored: what the verification says of the floor that it was done under; None: there was none.
        approved: whether somebody approved the release.
        signed: whether it is going to be signed.

    Raises:
        VerificationError: if there is a floor, and it is another one, or asks for an approval or a signature.
        SpecError: if the floor cannot be read.
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
            f"the floor policy {floor.path} asks that somebody approves every release, and nobody did; "
            "require an approval and run the release again"
        )
    require_signature(floor, signed=signed)


def require_signature(floor: Floor | None, *, signed: bool) -> None:
    """Refuse a release that is not to be signed where the floor asks for a signature.

    Raises:
        VerificationError: see above.
    """
    if floor is not None and floor.signed and not signed:
        raise VerificationError(
            f"the floor policy {floor.path} asks that every release is signed, and there is no key: add the "
            f"Airflow connection signing_default, or name the file of a key as {VARIABLES['signing_key']}"
        )


def weaker_than_floor(policy: "ReleasePolicy", floor: Floor | None) -> str | None:
    """In which rules a policy says less than the floor, and what to do: whoever reads it would be misled."""
    if floor is None or not (found := policy.weaker_than(floor.policy)):
        return None
    return (
        f"{'; '.join(found)} of the floor policy {floor.path}; ask for at least as much, or leave the rule "
        "out, for the floor holds anyway"
    )


def _of_all_columns(policy: "ReleasePolicy", path: Path) -> "ReleasePolicy":
    """The same, with the k of its k-anonymity counted over every released column that is not sensitive."""
    from privacy_engine.verification.all_columns import AllColumnsKAnonymity
    from privacy_engine.verification.models import KAnonymity

    found = [model.k for model in policy.require if isinstance(model, KAnonymity)]
    if not found:
        raise wrong(
            path,
            f"insensitive: {_AS_QUASI} must stand beside k_anonymity, whose k it is about; add it to require",
        )
    return replace(policy, all_columns=(*policy.all_columns, AllColumnsKAnonymity(k=max(found))))


def read_floor(path: Path, note: str) -> Floor:
    """What stands in the file of a floor.

    Args:
        path: absolute.
        note: ends the message of an error.

    Raises:
        SpecError: if it cannot be read.
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
