"""Wait for the files of a source."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_privacy_release.hooks.connections import source_access
from privacy_engine.errors import PrivacyEngineError


class SourceTrigger(BaseTrigger):
    """Checks repeatedly whether Parquet files are at an address, without reading any.

    Args:
        uri: Address of the files.
        connection: Airflow connection id of the object store.
        every: Seconds between two checks.
        until: Time at which the trigger gives up, ISO 8601; unchanged if another triggerer takes over.
    """

    def __init__(self, *, uri: str, connection: str | None, every: float, until: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's signature is untyped
        self.uri = uri
        self.connection = connection
        self.every = every
        self.until = until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class and arguments for the metadata database. They contain no key of a store."""
        arguments = {name: getattr(self, name) for name in ("uri", "connection", "every", "until")}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: `come`, `late`, or the error that prevents the check."""
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
