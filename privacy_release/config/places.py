"""The addresses that a release may read: listed protocols, no chains, and places that a deployment allows.

Authors of release files, and of a source's own metadata, must not be able to make a worker read another
team's table, the files of the machine or an address of the network.
"""

import os
import re

from privacy_engine.errors import SchemaError, SpecError
from privacy_release.config.settings import setting

# Protocols of addresses, with the way to reach them: this machine, this process, and the extras.
LOCAL = frozenset({"file", "local"})
STORES = frozenset({"s3", "s3a", "abfs", "abfss", "az", "wasb", "wasbs", "gs", "gcs", "memory"})
_WEB = frozenset({"http", "https"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_GLOB = re.compile(r"[*?\[]")


def require_allowed(address: str) -> None:
    """Raise if no release of this deployment may read an address.

    Raises:
        SpecError: If its protocol is not listed, it chains protocols, or the option `sources` excludes it.
    """
    if "::" in address:
        raise SpecError(
            "the address of a source must not chain protocols with `::`: what such a chain keeps or "
            "evaluates cannot be controlled; give the address of the files themselves"
        )
    scheme = scheme_of(address)
    web = scheme in _WEB and setting("http_sources") == "allow"
    if scheme and scheme not in LOCAL | STORES and not web:
        hint = " or have the deployment set the option http_sources to `allow`" if scheme in _WEB else ""
        raise SpecError(
            f"the address of a source must be a path, or begin with file://, s3://, abfss:// or gs://, got "
            f"{scheme}://; correct it{hint}"
        )
    allowed = [place for place in re.split(r"[,\n]", setting("sources") or "") if place.strip()]
    if allowed and not any(is_below(_before_glob(address), place.strip()) for place in allowed):
        raise SpecError(
            "the address of a source must be below one of the places that this deployment allows (option "
            f"sources: {', '.join(place.strip() for place in allowed)}); correct it"
        )


def require_below(address: str, folder: str, what: str) -> None:
    """Raise if an address in the metadata of a table leads out of the folder of that table.

    Raises:
        SchemaError: Naming what it is the address of.
    """
    if not is_below(address, folder):
        raise SchemaError(
            f"{what} must be in the folder of its table, but its metadata names another place; use an "
            "export of the table, or a copy whose files are all in one folder"
        )


def is_below(address: str, folder: str) -> bool:
    """Return whether an address is a folder or in it, following links of this machine.

    >>> is_below("s3://bucket/people/a.parquet", "s3://bucket/people")
    True
    >>> is_below("s3://bucket/people/../pay/a.parquet", "s3://bucket/people")
    False
    >>> is_below("s3://bucket/people2", "s3://bucket/people")
    False
    """
    one, other = _parts(address), _parts(folder)
    return one is not None and other is not None and one[: len(other)] == other


def normal(address: str) -> str:
    """Return an address, or a pattern of addresses, in a normal form, equal for equal places.

    >>> normal("s3a://bucket//people/./a.parquet")
    's3/bucket/people/a.parquet'
    """
    parts = _parts(address)
    return address if parts is None else "/".join(parts)


def scheme_of(address: str) -> str:
    """Return the protocol of an address in lower case. Empty for a path."""
    found = _SCHEME.match(address)
    return found[1].lower() if found else ""


def _parts(address: str) -> list[str] | None:
    """Return protocol, bucket and folders of an address. None if it has `..` in a store."""
    scheme = scheme_of(address)
    path = address[len(scheme) + 3 :] if scheme else address.removeprefix("file:")
    if scheme in LOCAL or not scheme:
        return ["file", *os.path.realpath(path).strip("/").split("/")]
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return None if ".." in parts else [{"s3a": "s3", "gcs": "gs"}.get(scheme, scheme), *parts]


def _before_glob(address: str) -> str:
    """Return the folder of an address before its first wildcard."""
    found = _GLOB.search(address)
    return address if found is None else address[: found.start()].rpartition("/")[0] or "/"
