"""Calculations that policies of several slots share."""
