"""The work areas of runs, in the folder or below the address that the deployment set."""

from airflow_privacy_release.hooks.connections import connection_of, source_options
from privacy_engine.errors import SpecError
from privacy_release.config.settings import secret, setting, work_area_address
from privacy_release.workarea.area import work_area_root
from privacy_release.workarea.remote.keys import KEY_VARIABLE, Wrapping
from privacy_release.workarea.remote.store import Store
from privacy_release.workarea.remote.sweep import sweep_store
from privacy_release.workarea.sweep import Looked, SweepRules, sweep

DEFAULT_CONNECTION = "work_default"


def work_store() -> Store | None:
    """Return the store of encrypted work areas; None if the work area is a folder that all workers share.

    The secret that encrypts the keys of runs comes from the environment, else from the password of the
    connection if an environment variable or a secrets backend defines it: a connection in Airflow's database
    could be changed through the API. The `storage_options` for fsspec are in the extra of the connection;
    without one, the machine's own credentials are used.

    Raises:
        SecretError: If there is no secret, or it is too short.
        SpecError: If the options are not fsspec's.
    """
    address = work_area_address()
    if address is None:
        return None
    name = setting("work_area_connection") or DEFAULT_CONNECTION
    fixed, found = connection_of(name, fixed=True), connection_of(name)
    key = None if fixed is None else fixed.password
    place = f"the Airflow connection {name}"
    if not key:
        place = f"{KEY_VARIABLE}, or a connection {name} from the environment or a secrets backend,"
        key = secret(KEY_VARIABLE)
    wrapping = Wrapping((key or "").encode(), place)
    try:
        options = {} if found is None else source_options(found.extra_dejson)
    except SpecError as error:
        raise SpecError(f"connection {name}: {error}") from None
    return Store(root=address, options=options, wrapping=wrapping)


def sweep_areas(rules: SweepRules) -> list[Looked]:
    """Check all work areas and remove those that are no longer in use.

    Raises:
        WorkAreaError, SecretError, SpecError: If their store cannot be reached.
    """
    store = work_store()
    return sweep(work_area_root(), rules) if store is None else sweep_store(store, rules)
