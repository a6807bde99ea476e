"""The placeholders `{release}` and `{release:%Y-%m-%d}` in the address or the query of a source."""

import re
from dataclasses import dataclass
from datetime import date, datetime

from privacy_engine.errors import SpecError

_PLACEHOLDER = re.compile(r"\{release(?::([^{}]*))?\}")
_FORMAT = re.compile(r"(?:%[YmdHMSjyGVuBb]|[\w ./=-])+")
_DAY = "%Y-%m-%d"
# Parts of a query that are no code: comments and quoted text.
_APART = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"", re.DOTALL)


def check_placeholders(text: str) -> str:
    """Return the text if its placeholders are valid.

    Raises:
        SpecError: If a placeholder is invalid, so that no file would ever be found.
    """
    for found in re.finditer(r"\{release[^{}]*\}", text):
        whole = _PLACEHOLDER.fullmatch(found[0])
        form = whole and whole[1]
        if whole is None or (form is not None and not (_FORMAT.fullmatch(form) and "%" in form)):
            raise SpecError(
                f"{found[0]} must be {{release}} or a form of the release's date such as "
                "{release:%Y-%m-%d}, of %Y %m %d %H %M %S %j %y %G %V %u %B %b and plain letters; correct it"
            )
    return text


@dataclass(frozen=True, kw_only=True)
class ReleaseName:
    """The ID of a release, and its date if it has one.

    >>> name = ReleaseName(id="scheduled/1", moment=datetime(2026, 11, 2))
    >>> name.address("/data/{release:%Y/%m}/day={release:%Y-%m-%d}/{release}.parquet")
    '/data/2026/11/day=2026-11-02/scheduled_1.parquet'
    >>> name.bound("SELECT * FROM visits WHERE day = {release:%Y-%m-%d}")
    ('SELECT * FROM visits WHERE day = :release_0', {'release_0': datetime.date(2026, 11, 2)})

    Attributes:
        id: ID of the release in its table.
        moment: Date of the partition key, or else the logical date of its run. None if there is none.
    """

    id: str
    moment: datetime | None = None

    @classmethod
    def of(cls, release_id: str) -> "ReleaseName":
        """Return a name from only the ID, which may be a date.

        >>> ReleaseName.of("2026-11-02").moment
        datetime.datetime(2026, 11, 2, 0, 0)
        """
        return cls(id=release_id, moment=moment_of(release_id))

    def address(self, text: str) -> str:
        """Insert ID and date into an address.

        Raises:
            SpecError: If it has a date and the release has none.
        """
        return _PLACEHOLDER.sub(
            lambda found: self._formatted(found[1]) if found[1] else self.id.replace("/", "_"), text
        )

    def bound(self, sql: str) -> tuple[str, dict[str, str | date]]:
        """Return a query for SQLAlchemy with bound parameters in place of its placeholders only.

        The value of a placeholder never becomes part of the text, so it needs no quotes and cannot inject
        anything. A day, `%Y-%m-%d`, is bound as a date; any other form and the ID as text.

        Raises:
            SpecError: As `address` and `check_query`; or if a placeholder is in quotes, where it would not be
                a parameter.
        """
        check_query(sql)
        if any("{release" in found[0] for found in _APART.finditer(sql)):
            raise SpecError(
                "{release} in a query must be outside of quotes and comments: it is bound as a parameter, "
                "a day as a date; remove the quotes, and join texts with ||"
            )
        parts, values = [], dict[str, str | date]()
        at = 0
        for number, found in enumerate(_PLACEHOLDER.finditer(sql)):
            form, name = found[1], f"release_{number}"
            value = self._formatted(form) if form else self.id
            values[name] = date.fromisoformat(value) if form == _DAY else value
            parts += [_literal(sql[at : found.start()]), f":{name}"]
            at = found.end()
        return "".join([*parts, _literal(sql[at:])]), values

    def _formatted(self, form: str) -> str:
        if self.moment is None:
            raise SpecError(
                f"{{release:{form}}} needs a release with a date, but this one has none: run it by a "
                "schedule or partition, give a manual run a logical date, or on the command line "
                "--release-id 2026-11-02"
            )
        return self.moment.strftime(form)


def moment_of(key: str) -> datetime | None:
    """Return the date in a partition key or release ID. None if it is no date.

    >>> moment_of("2026-11-02T06:00:00"), moment_of("manual__2026-11-02")
    (datetime.datetime(2026, 11, 2, 6, 0), None)
    """
    if not re.match(r"\d{4}-\d{2}-\d{2}(?:$|[T ])", key):
        return None
    try:
        return datetime.fromisoformat(key)
    except ValueError:
        return None


def check_query(sql: str) -> str:
    """Return the text if it is a single query.

    Raises:
        SpecError: If it is no query, or several.
    """
    plain = _APART.sub(" ", sql).strip()
    if not re.match(r"(?i)(?:\(\s*)*(?:select|with)\b", plain) or ";" in plain.rstrip("; \n\t"):
        raise SpecError("sql must be one query that begins with SELECT or WITH; correct it")
    return sql


def _literal(sql: str) -> str:
    """Escape text of a query so that no colon begins a parameter."""
    return sql.replace(":", "\\:")
