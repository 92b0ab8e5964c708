"""The app server's store: applications, their history, templates; in SQLite or PostgreSQL."""
