"""Reads a page of HTML as a browser would, for the tests of the reports."""

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input", "wbr"}
LOADING = {"script", "link", "img", "iframe", "object", "form", "a", "base"}


class Page(HTMLParser):
    """Reads the page; fails on an element that is not closed where it was opened."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def require_closed_page(html: str) -> None:
    """The page loads nothing, runs nothing and leads nowhere; its ids and plots are in order."""
    page = Page(html)
    policies = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    assert not {tag for tag, _ in page.tags} & LOADING
    assert not any(
        name in a for _, a in page.tags for name in ("src", "href", "xlink:href", "srcset", "action")
    )
    assert not any(name.startswith("on") for _, a in page.tags for name in a)
    assert not re.search(r"https?:|url\(|@import|javascript:", html)
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a} <= set(ids)
    plots = [a for tag, a in page.tags if tag == "svg"]
    assert all(
        a.get("aria-hidden") == "true" or (a.get("role") == "img" and a.get("aria-label")) for a in plots
    )
