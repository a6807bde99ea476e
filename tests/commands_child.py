"""Child process of `test_documented_commands`: a warm interpreter whose forks run `privacy-release`.

It listens on a socket of the file system. A program that takes the command's place sends it the arguments,
the folder, the environment and the three standard streams, and ends as the fork does.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path

# Started from here, a command does not spend its life on imports. None of these starts a thread.
import deltalake
import duckdb
import great_expectations
import pyarrow.parquet

import privacy_release.expectations.table_expectations
import privacy_release.lake.publish
import privacy_release.reports.release
import privacy_release.running.run
import privacy_release.steps.release
from privacy_engine.anonymizers import mondrian
from privacy_release.cli.main import main

WARM = (deltalake, duckdb, great_expectations, pyarrow.parquet, mondrian, privacy_release)
# Its interpreter loads nothing that it does not need.
PROGRAM = """#!{python} -IS
import json, os, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    order = {{"argv": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
    socket.send_fds(server, [json.dumps(order).encode()], [0, 1, 2])
    sys.exit(int(server.recv(100)))
"""


def answer(line: socket.socket) -> None:
    """Run one command in a process, and send its exit code; as a shell does where a signal ended it."""
    text, streams, _, _ = socket.recv_fds(line, 1 << 20, 3)
    order = json.loads(text)
    child = os.fork()
    if not child:
        line.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["environment"])
        sys.argv = ["privacy-release", *order["argv"]]
        code = 70
        try:
            code = main(order["argv"])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    line.send(str(code if code >= 0 else 128 - code).encode())


def serve(folder: Path) -> None:
    """Write the program into a folder, and run what it is given until this process is ended."""
    address, program = folder / "socket", folder / "privacy-release"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(address))
        server.listen()
        program.write_text(PROGRAM.format(python=sys.executable, address=str(address)))
        program.chmod(0o700)
        print("ready", flush=True)  # noqa: T201  the parent reads it
        while True:
            line, _ = server.accept()
            with line:
                if not os.fork():
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    server.close()
                    answer(line)
                    os._exit(0)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
