"""Divides the cores of a node among its containers by least attained service."""
