"""Java, Hadoop's jars and its native library."""
