"""A PySpark program like any other: count the words of a text, as lines of word, tab and count.

usage: spark-submit word_totals.py SOURCE TARGET PARTITIONS
"""

import sys
from operator import add

from pyspark.sql import SparkSession


def main(source: str, target: str, partitions: int) -> None:
    """Count the words in `source`, write them to the folder `target`."""
    spark = SparkSession.builder.appName("word totals").getOrCreate()
    words = spark.sparkContext.textFile(source, partitions).flatMap(str.split)
    totals = words.map(lambda word: (word, 1)).reduceByKey(add)
    totals.map(lambda pair: f"{pair[0]}\t{pair[1]}").saveAsTextFile(target)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
