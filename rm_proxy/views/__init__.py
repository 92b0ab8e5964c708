"""Answers of REST and commands, as pydantic models."""
