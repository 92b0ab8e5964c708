"""Connections of application masters and to the NodeManager."""
