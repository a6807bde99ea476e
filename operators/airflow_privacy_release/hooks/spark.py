"""The Spark cluster behind an Airflow connection."""

from airflow.sdk import BaseHook

from airflow_privacy_release.hooks.connections import connection_of
from privacy_engine.errors import PrivacyEngineError, SpecError
from privacy_release.workarea.engines import DEFAULT_CONNECTION
from privacy_release.workarea.spark_session import SparkCluster


class SparkHook(BaseHook):
    """Describes the Spark cluster that an Airflow connection names.

    The extra of the connection, of type `privacy_spark` or any other, holds:

    - `master`: `local[4]` (this machine, four cores), `spark://HOST:7077` (a standalone cluster, or any other
      master URL of Spark), or `sc://HOST:15002` (a Spark Connect server).
    - `conf`: Spark settings as a mapping of strings; they override those of this project. For `sc://`, only
      settings that may be set in a running session.

    Its password is the cluster's `spark.authenticate.secret`, with which Spark encrypts everything that it
    sends and writes, or the token of the Spark Connect server. There is no default connection.

    All machines must have the same path of the work area, on shared storage, the same user, and a Python with
    this package (set `spark.pyspark.python` if its path differs from this machine's). If the work area is an
    address, executors open its files themselves, and the cluster needs a secret. Spark's log on this machine
    may quote records, so it is kept in the work area and removed with it. To keep it, name a file in your own
    log4j2 configuration (`spark.driver.extraJavaOptions`).
    """

    conn_name_attr = "spark_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "privacy_spark"
    hook_name = "Privacy Release Spark"

    def __init__(self, spark_conn_id: str = DEFAULT_CONNECTION) -> None:
        super().__init__()
        self.spark_conn_id = spark_conn_id

    def get_conn(self) -> SparkCluster:
        """Return the cluster, without connecting to it yet.

        Raises:
            SpecError: If there is no such connection, or it names no master.
        """
        name = self.spark_conn_id
        connection = connection_of(name)
        extra, password = ({}, None) if connection is None else (connection.extra_dejson, connection.password)
        master, conf = extra.get("master"), extra.get("conf") or {}
        if not isinstance(master, str) or not master:
            raise SpecError(
                f"the Airflow connection {name} does not exist or has no `master` of the cluster in its "
                "extra. "
                'Add it, for example with --conn-type privacy_spark --conn-extra \'{"master": "local[4]"}\''
            )
        if not isinstance(conf, dict) or not all(isinstance(setting, str) for setting in conf.values()):
            raise SpecError(
                f"connection {name}: `conf` must map names of Spark settings to strings. Correct it"
            )
        return SparkCluster(master=master, conf=conf, secret=password or None)

    def test_connection(self) -> tuple[bool, str]:
        """Check that the address accepts connections; no session is started. For Airflow's test button."""
        try:
            cluster = self.get_conn()
            cluster.require_reachable()
        except PrivacyEngineError as error:
            return False, str(error)
        return True, f"the Spark cluster {cluster.master} can be reached"


def spark_cluster(connection_id: str) -> SparkCluster:
    """Return the cluster of an Airflow connection. Called by `privacy_release.config.host`.

    Raises:
        SpecError: As `SparkHook.get_conn`.
    """
    return SparkHook(connection_id).get_conn()
