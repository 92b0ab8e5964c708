"""Files of an application in HDFS."""
