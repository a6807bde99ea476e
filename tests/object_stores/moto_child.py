"""moto's server, without two things that it does for each request: list its own modules, and write a log."""

from unittest.mock import patch

from moto import backends
from moto.moto_server.werkzeug_app import MotoRequestHandler
from moto.server import main

if __name__ == "__main__":
    modules = frozenset(backends.list_of_moto_modules())
    with (
        patch.object(backends, "list_of_moto_modules", lambda: modules),
        patch.object(MotoRequestHandler, "log_request", lambda *_: None),
    ):
        main()
