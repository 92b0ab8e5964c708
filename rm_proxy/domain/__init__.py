"""Ids, records, resources and exit codes."""
