"""Alembic steps of the store; run by `rm_proxy.store.store` when it opens."""
