"""Brings a database to today's schema. A new one is made at once; an old one goes through the steps in `migrations/`."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from stoker.core.errors import Unavailable

from .schema import metadata

NEWEST = "0005"
"""The newest step in `migrations/versions`."""

STEPS = Path(__file__).parent / "migrations"


def migrate(engine: Engine) -> None:
    """Make or upgrade the tables. Raises Unavailable for a database of a newer Stoker."""
    tables = sa.inspect(engine).get_table_names()
    if not tables:
        with engine.connect() as db:
            db.exec_driver_sql("BEGIN IMMEDIATE")  # all tables or none, should we die in the middle
            metadata.create_all(db)
            db.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
            db.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{NEWEST}')")
            db.commit()
        return
    with engine.connect() as db:
        found = db.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    if found != NEWEST:
        upgrade(engine, str(found))


def upgrade(engine: Engine, found: str) -> None:
    """Walk the steps from `found` to NEWEST."""
    from alembic import command  # not needed, and not imported, on any other day
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(STEPS))
    if found not in {step.revision for step in ScriptDirectory.from_config(config).walk_revisions()}:
        raise Unavailable(
            f"the database was written by a newer Stoker (its schema is {found}, this one knows up to {NEWEST})",
            fix="upgrade Stoker, or point STOKER_HOME at another folder",
        )
    with engine.connect() as db:
        db.exec_driver_sql("BEGIN IMMEDIATE")
        config.attributes["connection"] = db
        try:
            command.upgrade(config, NEWEST)
        except CommandError as error:
            raise Unavailable(f"the database could not be upgraded: {error}") from error
        db.commit()
