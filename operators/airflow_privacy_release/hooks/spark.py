"""The Spark cluster behind an Airflow connection."""

from airflow.sdk import BaseHook

from airflow_privacy_release.hooks.connections import connection_of
from privacy_engine.errors import PrivacyEngineError, SpecError
from privacy_release.workarea.engines import DEFAULT_CONNECTION
from privacy_release.workarea.spark_session import SparkCluster


class SparkHook(BaseHook):
    """Knows the Spark cluster that an Airflow connection names.

    The extra of the connection, of type `privacy_spark` or any other, holds:

    - `master`: `local[4]` (this machine, four cores), `spark://HOST:7077` (a standalone cluster, or whatever
      else Spark takes for a master), or `sc://HOST:15002` (a Spark Connect server).
    - `conf`: settings of Spark's, as names and texts; they go before those of this project. For `sc://` only
      those that may be set in a running session.

    Its password is the cluster's `spark.authenticate.secret`, with which all that Spark sends and writes is
    encrypted, or the token of the Spark Connect server. No connection, no cluster: there is no default.

    The same on all machines must be the path of the work area, on storage that they share, the user, and the
    Python with this package (`spark.pyspark.python` where it is elsewhere than here). Where the work area is
    an address, executors open its files themselves, and the cluster needs a secret. Spark's log on this
    machine may quote records, so it lies with them and goes when they go; to keep it, name a file in a log4j2
    configuration of your own (`spark.driver.extraJavaOptions`).
    """

    conn_name_attr = "spark_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "privacy_spark"
    hook_name = "Privacy Release Spark"

    def __init__(self, spark_conn_id: str = DEFAULT_CONNECTION) -> None:
        super().__init__()
        self.spark_conn_id = spark_conn_id

    def get_conn(self) -> SparkCluster:
        """The cluster; nothing is asked of it yet.

        Raises:
            SpecError: if there is no such connection, or it names no master.
        """
        name = self.spark_conn_id
        connection = connection_of(name)
        extra, password = ({}, None) if connection is None else (connection.extra_dejson, connection.password)
        master, conf = extra.get("master"), extra.get("conf") or {}
        if not isinstance(master, str) or not master:
            raise SpecError(
                f"the Airflow connection {name} must exist and name the cluster as `master` in its extra; "
                'add it, for example with --conn-type privacy_spark --conn-extra \'{"master": "local[4]"}\''
            )
        if not isinstance(conf, dict) or not all(isinstance(setting, str) for setting in conf.values()):
            raise SpecError(
                f"connection {name}: `conf` must map names of Spark's settings to texts; correct it"
            )
        return SparkCluster(master=master, conf=conf, secret=password or None)

    def test_connection(self) -> tuple[bool, str]:
        """Whether somebody listens at the address, for the button in Airflow's UI; no session is started."""
        try:
            cluster = self.get_conn()
            cluster.require_reachable()
        except PrivacyEngineError as error:
            return False, str(error)
        return True, f"the Spark cluster {cluster.master} can be reached"


def spark_cluster(connection_id: str) -> SparkCluster:
    """The cluster of an Airflow connection, as `privacy_release.config.host` asks for it.

    Raises:
        SpecError: as `SparkHook.get_conn`.
    """
    return SparkHook(connection_id).get_conn()
