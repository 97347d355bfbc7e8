"""The tables. Invariants are constraints here, so that an illegal state cannot be stored by anybody.

A change of this file needs a new step in `migrations/`; a test holds the two together.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, String, Table, Text, UniqueConstraint, text

from .guards import add_guards

metadata = MetaData()
_Number = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts by a column that is called so, and it is as wide
_Name = String().with_variant(String(collation="C"), "postgresql")  # in the order of its bytes, as in SQLite
_LIVE = text("live = 1")

jobs = Table(
    "jobs",
    metadata,
    Column("n", _Number, primary_key=True),  # the order of submission; lists page by it
    Column("id", _Name, nullable=False, unique=True),
    Column("project", _Name, nullable=False),
    Column("live", Integer, nullable=False),  # 1 until the job has ended
    Column("dialect", String, nullable=False),
    Column("state", String, nullable=False),  # as in its body
    Column("tries", Integer, nullable=False),  # the number of its newest attempt; 0: it has none
    Column("hidden", Integer, nullable=False),  # 1: forgotten; the row stays, so that its id stays taken
    Column("body", Text, nullable=False),
    Column("ended_at", Float),  # as in its body
    Index("ended_jobs", "ended_at"),
    Index("jobs_of_project", "project", "n"),
    Index("jobs_of_dialect", "project", "dialect", "n"),
    Index("jobs_of_state", "project", "state", "n"),
    Index("live_jobs", "live", sqlite_where=_LIVE, postgresql_where=_LIVE),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", _Name, primary_key=True),
    Column("job", _Name, nullable=False),
    Column("number", Integer, nullable=False),
    Column("live", Integer, nullable=False),  # 1 until it has ENDED
    Column("body", Text, nullable=False),
    UniqueConstraint("job", "number"),
    # P2: at most one live attempt per job.
    Index("one_live_attempt_per_job", "job", unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE),
)

holdings = Table(
    "holdings",
    metadata,
    # P3: a device is never held twice, nor in shares that are more than the whole: a guard refuses what is too much.
    Column("n", _Number, primary_key=True),
    Column("node", String, nullable=False),
    Column("device", String, nullable=False),
    Column("attempt", String, nullable=False),
    Column("milli", Integer, nullable=False),  # thousandths of the device
    Index("holdings_of_attempt", "attempt"),
    Index("holdings_of_device", "node", "device"),
)

nodes = Table(
    "nodes",
    metadata,
    Column("name", String, primary_key=True),
    Column("body", Text, nullable=False),
)

node_records = Table(  # no key to `nodes`: what is kept of a node outlives its absence
    "node_records",
    metadata,
    Column("node", String, primary_key=True),
    Column("body", Text, nullable=False),
)

story = Table(
    "story",
    metadata,
    Column("n", _Number, primary_key=True),
    Column("at", Float, nullable=False),
    Column("by", String, nullable=False),
    Column("job", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("body", Text, nullable=False),
    Index("story_of_job", "job", "n"),
    sqlite_autoincrement=True,
)

lead = Table(
    "lead",
    metadata,
    Column("n", Integer, primary_key=True, autoincrement=False),  # 1: there is one row, from when somebody first led
    Column(
        "term", _Number, nullable=False
    ),  # counted up by whoever takes the lead; what an earlier one decides is refused
    Column("who", String, nullable=False),  # its address
    Column("since", Float, nullable=False),
)

alert_rules = Table(
    "alert_rules",
    metadata,
    Column("n", _Number, primary_key=True),
    Column("owner", _Name, nullable=False),
    Column("name", _Name, nullable=False),
    Column("left_out", Integer, nullable=False),  # alerts that were not kept, since too many waited
    Column("body", Text, nullable=False),
    UniqueConstraint("owner", "name"),
    sqlite_autoincrement=True,
)

alert_cursor = Table(
    "alert_cursor",
    metadata,
    Column("n", Integer, primary_key=True, autoincrement=False),  # 1: there is one row, from the first rule on
    Column("position", _Number, nullable=False),  # of the story: alerts were made up to here
    Column("marks", Text, nullable=False),
)

alert_deliveries = Table(
    "alert_deliveries",
    metadata,
    Column("n", _Number, primary_key=True),
    Column("rule", _Number, nullable=False),
    Column("event", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("at", Float, nullable=False),  # when what it tells of happened
    Column("state", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("next_at", Float, nullable=False),
    Column("body", Text, nullable=False),
    Index("deliveries_by_state", "state", "rule", "next_at"),
    Index("deliveries_of_rule", "rule", "event", "subject", "at"),
    sqlite_autoincrement=True,
)

add_guards(metadata)
