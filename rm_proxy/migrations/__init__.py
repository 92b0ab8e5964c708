"""Alembic steps of the store; run by `rm_proxy.store` when it opens."""
