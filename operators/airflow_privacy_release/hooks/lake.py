"""The lake behind an Airflow connection."""

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from airflow_privacy_release.hooks.connections import extra_of, lake_options
from privacy_engine.errors import PrivacyEngineError, SpecError
from privacy_release.config.settings import default_lake_root

if TYPE_CHECKING:
    from privacy_release.lake.store import Lake


DEFAULT_LAKE = "lake_default"


class LakeHook(BaseHook):
    """Opens the lake that an Airflow connection names.

    The extra of the connection, of type `privacy_lake` or any other, holds:

    - `path`: the root of the lake, an absolute folder or an address such as `s3://bucket/folder`.
    - `storage_options`: for an object store, the options with which `deltalake` accesses it (keys, endpoint),
      under its names; see `docs/work_area.md`.

    Without a connection `lake_default` the lake is a folder, see `default_lake_root`.
    """

    conn_name_attr = "lake_conn_id"
    default_conn_name = DEFAULT_LAKE
    conn_type = "privacy_lake"
    hook_name = "Privacy Release Lake"

    def __init__(self, lake_conn_id: str = DEFAULT_LAKE) -> None:
        super().__init__()
        self.lake_conn_id = lake_conn_id

    def get_conn(self) -> "Lake":
        """Return the lake, without accessing it yet.

        Raises:
            SpecError: If there is no such connection, or it has no path.
        """
        from privacy_release.lake.store import Lake

        extra = extra_of(self.lake_conn_id)
        if extra is None and self.lake_conn_id == DEFAULT_LAKE:
            return Lake(root=default_lake_root())
        if not extra or not isinstance(extra.get("path"), str):
            raise SpecError(
                f"the Airflow connection {self.lake_conn_id} does not exist or has no `path` of the "
                "lake in its extra. Add it, for example with --conn-type privacy_lake "
                '--conn-extra \'{"path": "/data/lake"}\''
            )
        try:
            return Lake(root=extra["path"], storage_options=tuple(lake_options(extra).items()))
        except (SpecError, ValueError) as error:
            raise SpecError(f"connection {self.lake_conn_id}: {error}") from None

    def test_connection(self) -> tuple[bool, str]:
        """Check that the lake can be read. Called by the test button in Airflow's UI."""
        from privacy_release.lake.store import table_names

        try:
            lake = self.get_conn()
            known = len(table_names(lake))
        except PrivacyEngineError as error:
            return False, str(error)
        return True, f"the lake {lake.root} has {known} release tables"


def lake_of(connection_id: str) -> "Lake":
    """Return the lake of an Airflow connection, see `LakeHook`.

    Raises:
        SpecError: If there is no such connection, or it has no path.
    """
    return LakeHook(connection_id).get_conn()


def connected() -> dict[str, str | None]:
    """Return the place in the connection of each option, None without one. For `privacy-release where`."""
    from airflow_privacy_release.hooks.ledger import LedgerHook

    return {
        "lake": None if extra_of(DEFAULT_LAKE) is None else LakeHook().get_conn().root,
        "ledger": None if extra_of(LedgerHook.default_conn_name) is None else LedgerHook().get_conn().place,
    }
