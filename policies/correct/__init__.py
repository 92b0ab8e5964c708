"""Placements that turned out badly are made again."""
