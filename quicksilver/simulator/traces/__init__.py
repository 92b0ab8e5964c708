"""Traces as streams of jobs: readers of other programs' formats, generators, and what changes a stream on its way."""
