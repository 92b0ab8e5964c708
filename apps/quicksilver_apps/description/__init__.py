"""Descriptions of applications: their form, their check, what becomes of templates."""
