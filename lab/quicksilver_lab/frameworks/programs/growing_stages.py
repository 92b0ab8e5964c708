"""A PySpark program that grows and shrinks: wide stages after a shuffle, with pauses in which its executors are idle.

usage: spark-submit growing_stages.py RESULT TASKS SECONDS ROUNDS PAUSE_S

Each round reads the same shuffle again, so that a lost executor's part of it has to be made anew. Writes the sums that
each round collected, as JSON.
"""

import json
import sys
import time
from functools import partial
from operator import add
from pathlib import Path

from pyspark.sql import SparkSession


def worked(seconds: float, number: int) -> tuple[int, int]:
    """Take some time for a number; return it under its remainder by 7."""
    time.sleep(seconds)
    return number % 7, number


def main(result: str, tasks: int, seconds: float, rounds: int, pause_s: float) -> None:
    """Run the rounds, write the JSON file `result`."""
    spark = SparkSession.builder.getOrCreate()
    sums = spark.sparkContext.parallelize(range(tasks), tasks).map(partial(worked, seconds)).reduceByKey(add, tasks)
    collected = []
    for round_number in range(rounds):
        if round_number:
            time.sleep(pause_s)
        collected.append(sorted(sums.map(lambda pair: (pair[0], worked(seconds, pair[1])[1])).collect()))
    spark.stop()
    Path(result).write_text(json.dumps(collected))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
