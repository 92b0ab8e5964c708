"""The fields of Hadoop's messages that are read or written; unknown fields are kept."""
