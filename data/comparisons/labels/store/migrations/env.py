"""Runs migrations on a connection that `data.comparisons.labels.store.migrating` has opened."""

from __future__ import annotations

from alembic import context

from data.comparisons.labels.store.table import VERSION

context.configure(connection=context.config.attributes["connection"], version_table=VERSION)
with context.begin_transaction():
    context.run_migrations()
