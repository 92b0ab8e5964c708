"""Databases of our servers: SQLite files and PostgreSQL, their engines, and the versions of their tables."""
