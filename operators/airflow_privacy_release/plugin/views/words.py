"""How the pages write numbers and times."""

from datetime import UTC, datetime

from markupsafe import Markup, escape


def moment(time: str | datetime | None) -> str:
    """A time to the minute, UTC.

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
    """The day of a time.

    >>> day("2026-11-20T18:48:20.123+00:00")
    '2026-11-20'
    """
    return moment(time)[:10]


def number(value: float) -> str:
    """A number with at most four digits that count.

    >>> number(5.0), number(0.25), number(30162)
    ('5', '0.25', '30,162')
    """
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"


def breakable(name: str) -> Markup:
    """A name that may be broken behind its separators, escaped.

    >>> breakable("a_b<i>")
    Markup('a_<wbr>b&lt;i&gt;')
    """
    text = str(escape(name))
    for separator in "_-+":
        text = text.replace(separator, f"{separator}<wbr>")
    return Markup(text)  # escaped above; the tags are ours
