"""A PySpark program whose tasks sleep; it writes when its context was ready, and when and where each task ran.

usage: spark-submit sleeping_tasks.py RESULT TASKS SECONDS
"""

import json
import os
import sys
import time
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession


def nap(seconds: float, _: int) -> tuple[float, float, str]:
    """Sleep; return begin and end in Unix seconds, and the container."""
    begin_s = time.time()
    time.sleep(seconds)
    return begin_s, time.time(), os.environ.get("CONTAINER_ID", "")


def main(result: str, tasks: int, seconds: float) -> None:
    """Run the tasks, write the JSON file `result`."""
    spark = SparkSession.builder.getOrCreate()
    ready_s = time.time()
    spans = spark.sparkContext.parallelize(range(tasks), tasks).map(partial(nap, seconds)).collect()
    spark.stop()
    Path(result).write_text(json.dumps({"ready_s": ready_s, "tasks": spans}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
