"""Policies that order the applications whose asks wait at the proxy for a place."""
