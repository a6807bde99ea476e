"""Filter, order and page of the list of releases, from the query of its address."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from airflow_privacy_release.plugin.views.releases import Listed

PAGE_SIZE = 50
FILTERS = ("lake", "table", "method", "status")

ORDERS: Mapping[str, Callable[[Listed], Any]] = {
    "published": lambda row: row.entry.committed,
    "table": lambda row: row.table,
    "release": lambda row: row.entry.release_id,
    "version": lambda row: row.entry.version,
    "method": lambda row: row.method,
    "k": lambda row: row.symbols.get("k"),
    "l": lambda row: row.symbols.get("l"),
    "t": lambda row: row.symbols.get("t"),
    "epsilon": lambda row: row.symbols.get("epsilon"),
    "rows": lambda row: row.entry.rows,
    "approved": lambda row: row.approved_by,
    "status": lambda row: row.status,
}


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The part of the list that is shown. Unknown orders mean the default order.

    Attributes:
        filters: Value by attribute of `Listed`; an empty value filters nothing.
        text: Text to find in table or release id.
        order: Key of `ORDERS`.
        page: Page number, from 1.
    """

    filters: Mapping[str, str]
    text: str = ""
    order: str = "published"
    descending: bool = True
    page: int = 1

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> "Selection":
        """Parse the selection from the query of an address."""
        order = query.get("sort", "")
        page = query.get("page", "")
        known = order in ORDERS
        return cls(
            filters={name: query[name] for name in FILTERS if query.get(name)},
            text=query.get("q", "").strip(),
            order=order if known else "published",
            descending=query.get("dir") != "asc" if known else True,
            page=int(page) if page.isascii() and page.isdecimal() and 0 < len(page) < 7 and int(page) else 1,
        )

    def select(self, rows: Sequence[Listed]) -> list[Listed]:
        """Return the filtered rows in order; rows without a value to sort by come last."""
        key, text = ORDERS[self.order], self.text.casefold()
        chosen = [
            row
            for row in rows
            if all(getattr(row, name) == value for name, value in self.filters.items())
            and text in f"{row.table} {row.entry.release_id}".casefold()
        ]
        present = sorted((r for r in chosen if key(r) is not None), key=key, reverse=self.descending)
        return present + [row for row in chosen if key(row) is None]

    def paged(self, rows: Sequence[Listed]) -> Sequence[Listed]:
        """Return the rows of this page."""
        return rows[(self.page - 1) * PAGE_SIZE : self.page * PAGE_SIZE]

    def pages(self, count: int) -> int:
        """Return the number of pages for a number of rows."""
        return max(1, -(-count // PAGE_SIZE))

    def query(self) -> str:
        """Return the query of the address of this selection."""
        fields = {
            **self.filters,
            "q": self.text,
            "sort": self.order,
            "dir": "desc" if self.descending else "asc",
            "page": str(self.page) if self.page > 1 else "",
        }
        return urlencode({name: value for name, value in fields.items() if value})

    def ordered_by(self, order: str) -> "Selection":
        """Return the selection behind a column's header: sorted by that column, or reversed."""
        return replace(
            self, order=order, descending=not self.descending if order == self.order else True, page=1
        )

    def at(self, page: int) -> "Selection":
        """Return the same selection on another page."""
        return replace(self, page=page)
