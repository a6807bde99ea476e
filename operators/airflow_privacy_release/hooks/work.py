"""The work areas of runs, in the folder or below the address that the deployment set."""

from airflow_privacy_release.hooks.connections import connection_of, source_options
from privacy_engine.errors import SpecError
from privacy_release.work.area import work_area_root
from privacy_release.work.remote.keys import KEY_VARIABLE, Wrapping
from privacy_release.work.remote.store import Store
from privacy_release.work.remote.sweep import sweep_store
from privacy_release.work.settings import secret, setting, work_area_address
from privacy_release.work.sweep import Looked, Rules, sweep

DEFAULT_CONNECTION = "work_default"


def work_store() -> Store | None:
    """Where encrypted work areas are; None where the work area is a folder that all workers share.

    The connection has the secret that wraps the keys of runs as its password, and `storage_options` for
    fsspec in its extra. Without it the secret is that of the environment, and the options are those which the
    machine has.

    Raises:
        SecretError: if there is no secret, or it is too short.
        SpecError: if the options are not fsspec's.
    """
    address = work_area_address()
    if address is None:
        return None
    name = setting("work_area_connection") or DEFAULT_CONNECTION
    found = connection_of(name)
    if found is None:
        place = f"{KEY_VARIABLE}, as there is no Airflow connection {name},"
        return Store(root=address, wrapping=Wrapping((secret(KEY_VARIABLE) or "").encode(), place))
    try:
        options = source_options(found.extra_dejson)
    except SpecError as error:
        raise SpecError(f"connection {name}: {error}") from None
    wrapping = Wrapping((found.password or "").encode(), f"the Airflow connection {name}")
    return Store(root=address, options=options, wrapping=wrapping)


def sweep_areas(rules: Rules) -> list[Looked]:
    """Look at all work areas, and remove those that nobody uses any more.

    Raises:
        WorkAreaError, SecretError, SpecError: if their store cannot be reached.
    """
    store = work_store()
    return sweep(work_area_root(), rules) if store is None else sweep_store(store, rules)
