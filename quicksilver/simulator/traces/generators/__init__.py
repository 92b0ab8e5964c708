"""Traces that are drawn: those of clusters and of the papers' evaluations."""
