"""REST of the app server."""
