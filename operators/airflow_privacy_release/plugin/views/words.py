"""How the pages format numbers and times."""

from datetime import UTC, datetime

from markupsafe import Markup, escape

from privacy_release.reports.text import figure


def moment(time: str | datetime | None) -> str:
    """Format a time to the minute, in UTC.

    >>> moment("2026-11-20T18:48:20.123+00:00")
    '2026-11-20 18:48 UTC'
    """
    if time is None:
        return "-"
    try:
        read = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError:
        return str(time)
    return f"{(read if read.tzinfo is None else read.astimezone(UTC)):%Y-%m-%d %H:%M} UTC"


def day(time: str | datetime) -> str:
    """Format the day of a time.

    >>> day("2026-11-20T18:48:20.123+00:00")
    '2026-11-20'
    """
    return moment(time)[:10]


def number(value: float) -> str:
    """Format a number with at most four significant digits.

    >>> number(5.0), number(0.25), number(30162)
    ('5', '0.25', '30,162')
    """
    return figure(value)


def breakable(name: str) -> Markup:
    """Escape a name and allow line breaks after its separators.

    >>> breakable("a_b<i>")
    Markup('a_<wbr>b&lt;i&gt;')
    """
    text = str(escape(name))
    for separator in "_-+":
        text = text.replace(separator, f"{separator}<wbr>")
    return Markup(text)  # escaped above; the tags are ours
