"""Servers that workloads and tests start: Docker's daemon, PostgreSQL."""
