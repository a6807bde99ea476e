"""A program that asks a cluster for a session, and writes the answer; Spark gives up after a minute.

Arguments: the address of the master, a private folder, and the secret, which may be empty.
"""

import sys
from pathlib import Path

from privacy_engine.errors import SpecError
from privacy_release.workarea.spark_session import SparkCluster

master, folder, secret = sys.argv[1:]
try:
    with SparkCluster(master=master, secret=secret or None).session(Path(folder), 1 << 30):
        sys.stdout.write("a session was started")
except SpecError as error:
    sys.stdout.write(f"{error}; context: {error.__context__}; left: {list(Path(folder).iterdir())}")
