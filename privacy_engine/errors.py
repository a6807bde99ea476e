"""One exception a thing a caller can do about it. Messages name columns, rules and counts, never values."""

from collections.abc import Iterable
from dataclasses import dataclass

LONGEST = 2_000  # characters of one error about a file, whatever the file holds
MOST_PROBLEMS = 10


class PrivacyEngineError(Exception):
    """Whatever this project raises on purpose."""


class SchemaError(PrivacyEngineError, ValueError):
    """A table, schema or hierarchy does not fit: mend the data or the schema."""


class MissingSourceError(SchemaError):
    """Nothing is where the source should be: wait for it, leave the release out, or mend the address."""


class SkippedError(PrivacyEngineError):
    """Nothing is to be released this time, as the specification says: its source has not come."""


class SourceError(PrivacyEngineError):
    """The database of a source cannot be reached: nothing was released, retry is safe."""


class InfeasibleError(PrivacyEngineError, ValueError):
    """The guarantee cannot be met on this table: weaken it, allow suppression, or bring more records."""


class VerificationError(PrivacyEngineError):
    """The released bytes do not keep the policy: nothing may be published."""


class IntegrityError(PrivacyEngineError):
    """Bytes changed between two steps, or do not match their recorded hash: run the release again."""


class PublishError(PrivacyEngineError):
    """The lake could not be reached or refused the commit: nothing was published, retry is safe."""


class SpecError(PrivacyEngineError, ValueError):
    """A release specification or policy file is wrong: mend the named field."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong in a file that people write.

    Attributes:
        text: the field, what must hold, what was found, and what to do.
        path: keys and numbers that lead to the field; empty: the file as a whole, or what the text names.
        file: None: that which is being read.
        line: from 1; None: it is not known.
    """

    text: str
    path: tuple[str | int, ...] = ()
    file: str | None = None
    line: int | None = None


class ProblemsError(SpecError):
    """Several fields of a specification, or of the files that it names, are wrong: mend each of them.

    Attributes:
        problems: at least one, in the order in which they are told.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        super().__init__(tuple(problems))  # as its argument, so that it can be pickled
        self.problems: tuple[Problem, ...] = self.args[0]

    def __str__(self) -> str:
        told, length, file = list[str](), 0, None
        for problem in self.problems[:MOST_PROBLEMS]:
            where = "" if problem.file in (None, file) else f"{problem.file}: "
            line = "" if problem.line is None else f"line {problem.line}: "
            text = f"{where}{line}{problem.text}"
            length, file = length + len(text), problem.file or file
            if told and length > LONGEST:
                break
            told.append(text)
        more = len(self.problems) - len(told)
        return "; ".join([*told, f"and {more:,} more"] if more else told)


class SecretError(PrivacyEngineError, ValueError):
    """The secret of memoised answers is missing, too short, or not the one of the earlier releases."""


class BudgetExceededError(PrivacyEngineError):
    """The privacy budget does not cover the request: wait for the next period or ask for less."""


class LedgerError(PrivacyEngineError):
    """The privacy budget ledger cannot be reached or refuses: nothing was measured, retry is safe."""


class WorkAreaError(PrivacyEngineError):
    """The work area of the run cannot be reached, or its store refuses: a retry is safe."""


class EngineError(PrivacyEngineError):
    """DuckDB or Spark failed or died on the way: nothing was released, retry is safe."""


class CapacityError(PrivacyEngineError):
    """Memory, disk or processes do not suffice: give more of them, or smaller pieces; a retry is safe."""
