"""The Spark session of the offline plane: local with no set-up, or any master.

One session a process, as Spark has it. It stays on loopback, shows no page and no progress bar, and is quiet: what goes
wrong reaches the caller as an exception.
"""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.java import find_java, wrapped_java_home
from streams.errors import RunError

__all__ = ["DEFAULT_MASTER", "Progress", "silent", "spark_session"]

DEFAULT_MASTER = "local[*]"

#: Told what is being done, and the share of the whole command that is done, from 0 to 1.
Progress = Callable[[str, float], None]

#: Nothing: what goes wrong is raised. The gateway's logger is named because Spark talks about its level otherwise.
_LOG_SETTINGS = """\
rootLogger.level = off
rootLogger.appenderRef.stderr.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""

#: Local runs keep the heap small on purpose: sorts and joins spill to disk, and the Python workers need room too.
_DRIVER_MEMORY = "2g"

#: Batches of work, not a server: the collector of least work, and the quick compiler, as half a minute of the
#: thorough one is more than it gives back where the heavy loops are in Python's kernels.
_JAVA_OPTIONS = "-Xss4m -XX:+UseParallelGC -XX:TieredStopAtLevel=1"


def silent(step: str, share: float) -> None:
    """Report progress to nobody."""


def spark_session(master: str = DEFAULT_MASTER, settings: Mapping[str, str] | None = None) -> Any:
    """Return the process's Spark session, started if there is none.

    Args:
        master: any Spark master; ``local[*]`` needs nothing but Java.
        settings: further Spark settings, by their own names; they win over ours.

    Raises:
        RunError: no Spark, no Java, or Spark does not start (an unknown master, a port in use).
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise RunError("Spark is not installed; add it with: pip install 'waterspout[spark]'") from None

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    folder = Path(tempfile.mkdtemp(prefix="waterspout-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    builder = SparkSession.builder.master(master).appName("waterspout")
    for key, value in {**_settings(folder), **(settings or {})}.items():
        builder = builder.config(key, value)
    with _environment(JAVA_HOME=str(wrapped_java_home(find_java(), folder / "java")), PYSPARK_PYTHON=sys.executable):
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise RunError(
                f"Spark did not start on master '{master}': {_first_line(error)}; "
                "expected local[*], local[n], spark://host:port, yarn or k8s://..."
            ) from error
    return session


def _settings(folder: Path) -> dict[str, str]:
    """Return our defaults: loopback, quiet, Arrow batches, and partitions that follow the size of the data."""
    log = folder / "log4j2.properties"
    log.write_text(_LOG_SETTINGS)
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": _DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log} {_JAVA_OPTIONS}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": sys.executable,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
        "spark.sql.session.timeZone": "UTC",
        # Adaptive execution joins small shuffle partitions, so this is only the most there can be.
        "spark.sql.shuffle.partitions": "64",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "32m",
    }


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set variables while Spark starts, then put the process's own back: other libraries read them too."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
