"""Estimate pi from random points, then count words of generated text, with PySpark.

usage: pi.py SAMPLES SLICES
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from operator import add

from pyspark.sql import SparkSession

WORDS = ("elastic", "core", "worker", "master", "queue")


def hits(seed: int, points: int) -> int:
    """Return how many of `points` random points of a square are within its circle."""
    rng = random.Random(seed)
    return sum(rng.random() ** 2 + rng.random() ** 2 <= 1 for _ in range(points))


def text(seed: int) -> Iterator[tuple[str, int]]:
    """Yield the words of one slice of text, each with 1."""
    rng = random.Random(seed)
    for _ in range(1000):
        yield rng.choice(WORDS), 1


def main() -> None:
    """Run both jobs and check what can be checked."""
    samples, slices = int(sys.argv[1]), int(sys.argv[2])
    spark = SparkSession.builder.appName("spark-batch").getOrCreate()
    points = samples // slices
    numbers = spark.sparkContext.parallelize(range(slices), slices)
    pi = 4.0 * numbers.map(lambda seed: hits(seed, points)).sum() / (points * slices)
    counts = dict(numbers.flatMap(text).reduceByKey(add).collect())
    executors = len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1
    spark.stop()
    if abs(pi - 3.14159) > 0.05 or sum(counts.values()) != 1000 * slices:
        sys.exit(f"wrong: pi is about {pi}, words {counts}")
    print(f"pi is about {pi:.4f}; {sum(counts.values())} words; {executors} executors at the end")


if __name__ == "__main__":
    main()
