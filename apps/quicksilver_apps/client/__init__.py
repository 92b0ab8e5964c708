"""Submits described applications to YARN, and asks their masters."""
