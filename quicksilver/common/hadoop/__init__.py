"""Hadoop's own configuration files."""
