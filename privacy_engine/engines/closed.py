"""Settings of every database of DuckDB: it loads no extension and sees no variable of the program."""

from collections.abc import Mapping

Setting = str | bool | int | float | list[str]

CLOSED: Mapping[str, Setting] = {
    "python_enable_replacements": False,  # a table name must never find a variable
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
}
