"""Brings a database to today's schema. A new one is made at once; an old one goes through the steps in `migrations/`."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from stoker.core.errors import Unavailable

from .databases import Database
from .schema import metadata

NEWEST = "0006"
"""The newest step in `migrations/versions`."""

STEPS = Path(__file__).parent / "migrations"


def migrate(database: Database, *, upgrade: bool = True) -> None:
    """Make the tables, or upgrade them. Raises Unavailable for that of a newer Stoker, or an older one that is to stay."""
    with database.engine.connect() as db:
        found = schema_of(db)
        db.rollback()
        if found == NEWEST:
            return
        db.exec_driver_sql(
            database.begin_write
        )  # all steps or none, should we die in the middle; and one server at a time
        found = schema_of(db)
        if not found:
            make(db)
        elif found != NEWEST:
            if not upgrade and found < NEWEST:
                raise Unavailable(
                    f"the database has the schema {found}, this Stoker wants {NEWEST}",
                    fix="end the server that leads, and start it again with this Stoker: it upgrades the database",
                )
            walk(db, found)
        db.commit()


def schema_of(db: Connection) -> str:
    """The newest step that a database has taken; empty for one without tables."""
    if not sa.inspect(db).has_table("alembic_version"):
        return ""
    return str(db.exec_driver_sql("SELECT version_num FROM alembic_version").scalar())


def make(db: Connection) -> None:
    """Make today's tables in an empty database."""
    metadata.create_all(db)
    db.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    db.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{NEWEST}')")


def walk(db: Connection, found: str, to: str = NEWEST) -> None:
    """Take the steps from `found`, within the transaction that goes on. Raises Unavailable."""
    from alembic import command  # not needed, and not imported, on any other day
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(STEPS))
    if found and found not in {step.revision for step in ScriptDirectory.from_config(config).walk_revisions()}:
        raise Unavailable(
            f"the database was written by a newer Stoker (its schema is {found}, this one knows up to {NEWEST})",
            fix="upgrade Stoker, or point STOKER_HOME at another folder",
        )
    config.attributes["connection"] = db
    try:
        command.upgrade(config, to)
    except CommandError as error:
        raise Unavailable(f"the database could not be upgraded: {error}") from error
