"""What can be wrong with a signed release, each with a word of its own that programs may look for."""

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """What is wrong."""

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
    """Why the answer is no: what is wrong, the release that it is about, if it is about one, and words."""

    fault: Fault
    text: str
    release: str | None = None


class FaultError(Exception):
    """Something is wrong; whoever checks takes its reason down and goes on."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault
