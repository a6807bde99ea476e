"""The faults of a signed release, each with a unique name that programs can test for."""

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """The kind of a fault."""

    LOG = "log"
    NOTHING = "nothing published"
    UNSIGNED = "unsigned"
    STATEMENT_MISSING = "statement missing"
    STATEMENT_CHANGED = "statement changed"
    SIGNATURE = "signature"
    UNKNOWN_KEY = "unknown key"
    KEY_NOT_VALID = "key not valid"
    KEY_REPLACED = "key replaced"
    OTHER_TABLE = "other table"
    NOTE = "note"
    CHAIN = "chain"
    TOO_OLD = "too old"
    PROOF = "proof"
    FILES = "files"
    ROWS = "rows"
    APPROVAL = "approval"
    POLICY = "policy"
    MEASURED = "measured"


@dataclass(frozen=True, kw_only=True)
class Reason:
    """A reason why the answer is no: the fault, the release that it concerns, if any, and a description."""

    fault: Fault
    text: str
    release: str | None = None


class FaultError(Exception):
    """A fault that ends one step of a check. The check records its reason and continues."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault
