"""Options of every Java that tests start, and an archive of the classes that Spark loads.

Each Java of Spark parses some ten thousand classes, for half of the time that it takes to start. `make
test-all` runs this module once for an environment: it writes them to a file, which later processes map into
memory.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(sys.prefix) / ".spark-classes.jsa"
# Spark lives for some tests only: to compile its code a second time takes longer than what that saves.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def java_options(archive: Path = ARCHIVE) -> str:
    """Return the options. A Java that cannot use the archive says nothing and loads its classes itself."""
    if not archive.exists() or not archive.stat().st_size:
        return _QUICK
    return f'{_QUICK} "-XX:SharedArchiveFile={archive}" -Xshare:auto -Xlog:disable -Xlog:all=error:stderr'


def archive_classes(archive: Path) -> None:
    """Start Spark, count and write some records, and have its Java archive its classes when it ends."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

    from privacy_engine.engines.spark import SparkEngine

    unfinished = archive.with_suffix(".unfinished")  # Java crashes on an archive that is cut off
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [str(folder / "people.parquet")]
        pq.write_table(
            pa.table({"age": [30, 40] * 50, "town": ["north"] * 100}), files[0], store_schema=False
        )
        settings = {
            "spark.driver.extraJavaOptions": f'{_QUICK} "-XX:ArchiveClassesAtExit={unfinished}"',
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": name,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        builder = SparkSession.builder.master("local[2]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        engine = SparkEngine(session)
        engine.class_sizes(files, ["age", "town"])
        engine.contingency(files, ["age"])
        session.read.parquet(*files).orderBy("age").write.parquet(str(folder / "copy"))
        gateway: Any = session.sparkContext._gateway
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
    unfinished.replace(archive)


if __name__ == "__main__":
    if shutil.which("java") is None:  # tests of Spark skip, and say so
        ARCHIVE.touch()
    else:
        archive_classes(ARCHIVE)
