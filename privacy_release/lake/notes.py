"""Read the note of a publication or retraction in its commit, and describe what is wrong with it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

Mode = Literal["snapshot", "partitions", "append", "history"]
_Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _Loss(_Strict):
    epsilon: float
    delta: float
    neighbours: str


class _Finding(_Strict):
    rule: str
    measured: float | None
    passed: bool


class _Figures(_Strict):
    """The figures that pages and answers show. There may be more."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    measured: list[_Finding] | None = None
    loss: _Loss | None = None
    approval: dict[str, Any] | None = None


class SignedBy(_Strict):
    """The signed statement about a publication or retraction: its hash, and its position in the chain."""

    sha256: _Sha256
    sequence: int = Field(ge=1)


class PublishNote(_Strict):
    """The note of a publication, see `privacy_release.lake.log.Publication`."""

    action: Literal["publish"]
    release: str
    run_key: str
    rows: int = Field(ge=0)
    columns: list[str]
    sha256: _Sha256
    manifest: _Sha256
    report: _Sha256
    figures: _Figures
    statement: SignedBy | None = None
    partition: str | None = None  # earlier versions named the folder after the release
    mode: Mode = "partitions"
    proofs: dict[str, _Sha256] = {}


class RetractNote(_Strict):
    """The note of a retraction, see `privacy_release.lake.log.Tombstone`."""

    action: Literal["retract"]
    release: str
    reason: str
    tombstone: _Sha256
    statement: SignedBy | None = None
    partitions: list[str] = []  # a publication with a damaged note is only known by its partition


_RULES = {
    "model_attributes_type": "a mapping",
    "union_tag_not_found": "with an action",
    "union_tag_invalid": "with the action publish or retract",
    "string_type": "text",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a mapping",
    "string_pattern_mismatch": "a sha256",
}
_NOTE: TypeAdapter[PublishNote | RetractNote] = TypeAdapter(
    Annotated[PublishNote | RetractNote, Field(discriminator="action")]
)


def read_note(note: object) -> PublishNote | RetractNote | str:
    """Return a note, or a description of what is wrong with it: fields and rules, no values."""
    try:
        return _NOTE.validate_python(note)
    except ValidationError as error:
        return "; ".join(_words(found) for found in error.errors(include_input=False, include_url=False))


def _words(found: Any) -> str:
    """Return a field and the rule that it breaks."""
    place = ".".join(str(part) for part in found["loc"][1:]) or "the note"
    if found["type"] == "missing":
        return f"{place} is missing"
    return f"{place} must be {_RULES.get(found['type'], found['type'].replace('_', ' '))}"
