"""Row conditions of expectations: a small grammar, because Great Expectations passes them to pandas as code.

`DataFrame.query` calls methods and reads Python's variables (`@name`), so it can run commands. A condition is
therefore parsed here, and only a text that is rebuilt from the parsed form is passed on::

    condition  = conjunction { ("or" | "|") conjunction }
    conjunction = negation { ("and" | "&") negation }
    negation   = ("not" | "~") negation | "(" condition ")" | comparison
    comparison = value { ("==" | "!=" | "<" | "<=" | ">" | ">=") value } | value ["not"] "in" list
    list       = "[" value { "," value } "]"
    value      = column | "`" column "`" | number | text | "True" | "False"
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from privacy_engine.errors import SpecError

LONGEST = 2_000  # characters of a condition
ALLOWED = (
    "it may compare columns with numbers, texts and lists by ==, !=, <, <=, >, >= and in, and combine these "
    "by and, or, not and parentheses"
)
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<text>"[^"\\\n]*"|'[^'\\\n]*')
      | (?P<quoted>`[^`\n]+`)
      | (?P<name>[^\W\d]\w*)
      | (?P<mark>==|!=|<=|>=|[<>()\[\],&|~-])
    )""",
    re.VERBOSE,
)
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_WORDS = frozenset({"and", "or", "not", "in", "True", "False", "None"})
_MARKS = {"&": "and", "|": "or", "~": "not"}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


def rebuilt(condition: str) -> str:
    """Return a row condition that pandas may evaluate.

    >>> rebuilt("age > 3 & (town in ['north', 'south'] | ~(`zip code` == '1'))")
    "((`age` > 3) and ((`town` in ['north', 'south']) or not (`zip code` == '1')))"

    Raises:
        SpecError: If it is anything but such a condition. The text is not repeated, as it may quote values.
    """
    if len(condition) > LONGEST:
        raise SpecError(f"a row_condition must have at most {LONGEST:,} characters, got {len(condition):,}")
    return _Parser(_tokens(condition)).parsed()


def _tokens(text: str) -> list[_Token]:
    found, place = [], 0
    end = len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise _refused(place)
        found.append(_Token(match.lastgroup, match[match.lastgroup]))
        place = match.end()
    return found


def _refused(place: int) -> SpecError:
    return SpecError(f"a row_condition is not understood from character {place + 1} on: {ALLOWED}")


class _Parser:
    """A parser by recursive descent. Each method returns the text of what it has read."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def parsed(self) -> str:
        text = self._condition()
        if self._next < len(self._tokens):
            raise self._wrong()
        return text

    def _condition(self) -> str:
        return self._joined("or", self._conjunction)

    def _conjunction(self) -> str:
        return self._joined("and", self._negation)

    def _joined(self, word: str, part: Callable[[], str]) -> str:
        parts = [part()]
        while self._take(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else f"({f' {word} '.join(parts)})"

    def _negation(self) -> str:
        if self._take("not"):
            return f"not {self._negation()}"
        if self._take("("):
            text = self._condition()
            self._need(")")
            return text
        return self._comparison()

    def _comparison(self) -> str:
        first = self._value()
        if (word := self._take("in")) or (
            self._ahead("not", "in") and self._take("not") and self._take("in")
        ):
            self._need("[")
            values = [self._value()]
            while self._take(","):
                values.append(self._value())
            self._need("]")
            return f"({first} {'in' if word else 'not in'} [{', '.join(values)}])"
        parts = [first]
        while (token := self._peek()) is not None and token.text in _COMPARISONS and token.kind == "mark":
            self._next += 1
            parts += [token.text, self._value()]
        if len(parts) == 1:
            raise self._wrong()
        return f"({' '.join(parts)})"

    def _value(self) -> str:
        sign = "-" if self._take("-") else ""
        token = self._peek()
        if token is None or (sign and token.kind != "number"):
            raise self._wrong()
        self._next += 1
        match token.kind:
            case "number":
                return sign + token.text
            case "text":
                return repr(token.text[1:-1])
            case "quoted":
                return token.text
            case "name" if token.text in ("True", "False"):
                return token.text
            case "name" if token.text not in _WORDS:
                return f"`{token.text}`"
        self._next -= 1
        raise self._wrong()

    def _peek(self, ahead: int = 0) -> _Token | None:
        place = self._next + ahead
        return self._tokens[place] if place < len(self._tokens) else None

    def _is(self, token: _Token | None, word: str) -> bool:
        return (
            token is not None
            and token.kind in ("mark", "name")
            and _MARKS.get(token.text, token.text) == word
        )

    def _ahead(self, *words: str) -> bool:
        return all(self._is(self._peek(i), word) for i, word in enumerate(words))

    def _take(self, word: str) -> bool:
        if not self._ahead(word):
            return False
        self._next += 1
        return True

    def _need(self, word: str) -> None:
        if not self._take(word):
            raise self._wrong()

    def _wrong(self) -> SpecError:
        return SpecError(f"a row_condition is not understood at its part {self._next + 1}: {ALLOWED}")
