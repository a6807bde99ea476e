"""One exception for each reaction of a caller. Messages name columns, rules and counts, never values."""

from collections.abc import Iterable
from dataclasses import dataclass

LONGEST = 2_000  # characters of one error about a file, whatever the file holds
MOST_PROBLEMS = 10


class PrivacyEngineError(Exception):
    """Base class of the errors that this project raises on purpose."""


class SchemaError(PrivacyEngineError, ValueError):
    """A table, schema or hierarchy does not fit: correct the data or the schema."""


class MissingSourceError(SchemaError):
    """The source does not exist at its address: wait for it, skip the release, or correct the address."""


class SkippedError(PrivacyEngineError):
    """The specification skips this release, because its source has not arrived."""


class SourceError(PrivacyEngineError):
    """The database of a source cannot be reached: nothing was released, retry is safe."""


class InfeasibleError(PrivacyEngineError, ValueError):
    """The guarantee cannot be met on this table: weaken it, allow suppression, or bring more records."""


class VerificationError(PrivacyEngineError):
    """The released bytes violate the policy: nothing may be published."""


class IntegrityError(PrivacyEngineError):
    """Bytes changed between two steps, or do not match their recorded hash: run the release again."""


class PublishError(PrivacyEngineError):
    """The lake could not be reached or refused the commit: nothing was published, retry is safe."""


class SpecError(PrivacyEngineError, ValueError):
    """A release specification or policy file is wrong: correct the named field."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One error in a file that people write.

    Attributes:
        text: Field, rule, value found, and what to do.
        path: Keys and numbers that lead to the field; empty for the whole file or for what the text names.
        file: Name of the file; None for the file being read.
        line: Line number, from 1; None if unknown.
    """

    text: str
    path: tuple[str | int, ...] = ()
    file: str | None = None
    line: int | None = None


class ProblemsError(SpecError):
    """Several fields of a specification, or of the files that it names, are wrong: correct each of them.

    Attributes:
        problems: Problems in the order of the message, at least one.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        super().__init__(tuple(problems))  # as the argument, so that the error can be pickled
        self.problems: tuple[Problem, ...] = self.args[0]

    def __str__(self) -> str:
        texts, length, file = list[str](), 0, None
        for problem in self.problems[:MOST_PROBLEMS]:
            where = "" if problem.file in (None, file) else f"{problem.file}: "
            line = "" if problem.line is None else f"line {problem.line}: "
            text = f"{where}{line}{problem.text}"
            length, file = length + len(text), problem.file or file
            if texts and length > LONGEST:
                break
            texts.append(text)
        more = len(self.problems) - len(texts)
        return "; ".join([*texts, f"and {more:,} more"] if more else texts)


class SecretError(PrivacyEngineError, ValueError):
    """The secret of memoised answers is missing, too short, or differs from that of the earlier releases."""


class BudgetExceededError(PrivacyEngineError):
    """The privacy budget does not cover the request: wait for the next period or request less."""


class LedgerError(PrivacyEngineError):
    """The privacy budget ledger cannot be reached or refuses: nothing was measured, retry is safe."""


class WorkAreaError(PrivacyEngineError):
    """The work area of the run cannot be reached, or its store refuses: a retry is safe."""


class EngineError(PrivacyEngineError):
    """DuckDB or Spark failed or died during the work: nothing was released, retry is safe."""


class CapacityError(PrivacyEngineError):
    """Memory, disk or processes do not suffice: provide more, or use smaller fragments; a retry is safe."""
