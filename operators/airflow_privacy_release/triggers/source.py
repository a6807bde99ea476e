"""Waiting for the files of a source."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_privacy_release.hooks.connections import source_access
from privacy_engine.errors import PrivacyEngineError


class SourceTrigger(BaseTrigger):
    """Looks again and again whether Parquet files are at an address; it reads none.

    Args:
        uri: where they should be.
        connection: Airflow connection of the object store.
        every: seconds between two looks.
        until: when it gives up, ISO 8601; it stays the same when a triggerer dies and another goes on.
    """

    def __init__(self, *, uri: str, connection: str | None, every: float, until: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own
        self.uri = uri
        self.connection = connection
        self.every = every
        self.until = until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class and arguments, as the metadata database keeps them: no key of a store is among them."""
        arguments = {name: getattr(self, name) for name in ("uri", "connection", "every", "until")}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: `come`, `late`, or what stands against looking."""
        until = datetime.fromisoformat(self.until)
        while True:
            try:
                come = await sync_to_async(self._has_come, thread_sensitive=False)()
            except PrivacyEngineError as error:
                yield TriggerEvent({"state": "failed", "message": str(error)})  # type: ignore[no-untyped-call]
                return
            left = (until - datetime.now(UTC)).total_seconds()
            if come or left <= 0:
                yield TriggerEvent({"state": "come" if come else "late"})  # type: ignore[no-untyped-call]
                return
            await asyncio.sleep(min(self.every, left))

    def _has_come(self) -> bool:
        from privacy_release.sources.waiting import has_come

        return has_come(self.uri, **source_access(self.uri, self.connection))
