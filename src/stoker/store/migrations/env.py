"""Alembic's door: runs the steps on the connection that store/migrate.py hands over."""

from alembic import context

from stoker.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
