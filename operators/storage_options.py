"""The keys of an object store, as an Airflow connection holds them: `storage_options` in its extra.

Two libraries reach object stores, each with names of its own: the lake is Delta's (`AWS_ACCESS_KEY_ID`), a
source is fsspec's (`key`). Each passes over the names of the other in silence and asks the store without
keys, so they are refused here.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from privacy_engine.errors import SpecError

_FSSPEC = frozenset({"key", "secret", "client_kwargs", "config_kwargs", "connection_string"})
_DELTA = re.compile(r"(?i)(aws|azure|google)_.+|allow_http|max_retries|retry_timeout")
_SECRET = re.compile(r"(?i)key|secret|token|sas|password|credential|connection_string")


def lake_options(extra: Mapping[str, Any]) -> dict[str, str]:
    """The options for the Delta library, which takes text alone.

    >>> lake_options({"storage_options": {"AWS_REGION": "eu-west-1", "AWS_ALLOW_HTTP": True}})
    {'AWS_REGION': 'eu-west-1', 'AWS_ALLOW_HTTP': 'true'}

    Raises:
        SpecError: naming the options that it would not understand.
    """
    options = _options(extra)
    strange = [
        name for name, value in options.items() if name in _FSSPEC or isinstance(value, Mapping | list)
    ]
    if strange:
        raise SpecError(
            f"the storage_options of a lake must be text under deltalake's names, got {', '.join(strange)}; "
            "write AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AZURE_STORAGE_ACCOUNT_NAME, ..."
        )
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }


def source_options(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The options for fsspec, as they are: some are numbers, truth values or mappings.

    Raises:
        SpecError: naming the options that it would not understand.
    """
    options = _options(extra)
    strange = [name for name in options if _DELTA.fullmatch(name)]
    if strange:
        raise SpecError(
            f"the storage_options of a source must have fsspec's names, got {', '.join(strange)}; write key, "
            "secret and endpoint_url for s3fs, account_name and account_key for adlfs"
        )
    return options


def _options(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are set. From here on Airflow blots out their keys in whatever is logged."""
    from airflow.sdk.log import mask_secret

    options = extra.get("storage_options") or {}
    if not isinstance(options, Mapping):
        raise SpecError(
            f"storage_options must be a mapping of names and values, got {type(options).__name__}; "
            "mend the extra of the connection"
        )
    for value in _secrets(options):
        mask_secret(value)
    return {str(name): value for name, value in options.items() if value is not None}


def _secrets(options: Mapping[Any, Any]) -> Iterator[str]:
    """The values of options that are named as keys are, also of those inside a connection string."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _secrets(value)
        elif isinstance(value, str) and _SECRET.search(str(name)):
            yield value
            yield from _secrets(dict(part.split("=", 1) for part in value.split(";") if "=" in part))
