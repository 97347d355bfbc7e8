"""The statements that run for every change, built once: building one costs more than running it."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import bindparam

from .schema import attempts, holdings, jobs, lead, node_records, nodes, story

LAST_POSITION = sa.select(sa.func.coalesce(sa.func.max(story.c.n), 0))  # where the story stands
LAST_MOMENT = sa.select(story.c.at).order_by(story.c.n.desc()).limit(1)  # when it got there
STANDING = sa.select(  # the same, with the term
    LAST_POSITION.scalar_subquery().label("position"),
    sa.select(sa.func.coalesce(sa.func.max(lead.c.term), 0)).scalar_subquery().label("term"),
)
STORY_AFTER = (
    sa.select(story).where(story.c.n > bindparam("after")).order_by(story.c.n).limit(bindparam("most"))
)  # of all
STORY_OF_JOB = STORY_AFTER.where(story.c.job == bindparam("of"))  # of one job
ADD_LINES = sa.insert(story)  # the story grows

READ_JOB = sa.select(jobs.c.n, jobs.c.body).where(  # one job, and its place in lists
    jobs.c.id == bindparam("job"), jobs.c.hidden == 0
)
ADD_JOB = sa.insert(jobs)  # fails on a taken id
UPDATE_JOB = (  # after a change
    sa.update(jobs)
    .where(jobs.c.id == bindparam("job"))
    .values(
        live=bindparam("is_live"),
        state=bindparam("new_state"),
        tries=bindparam("new_tries"),
        body=bindparam("new_body"),
        ended_at=bindparam("new_ended_at"),
    )
)
HIDE_JOB = sa.update(jobs).where(jobs.c.id == bindparam("job")).values(hidden=1)  # it is forgotten
LIST_JOBS = (  # with the newest attempt of each; more conditions are added by who lists
    sa.select(jobs.c.n, jobs.c.body, attempts.c.body.label("attempt"))
    .outerjoin(attempts, sa.and_(attempts.c.job == jobs.c.id, attempts.c.number == jobs.c.tries))
    .where(jobs.c.project == bindparam("of_project"), jobs.c.n < bindparam("before"), jobs.c.hidden == 0)
    .order_by(jobs.c.n.desc())
    .limit(bindparam("most"))
)
ENDED_JOBS = (  # the newest of them that ended since a moment
    sa.select(jobs.c.body)
    .where(jobs.c.ended_at >= bindparam("since"))
    .order_by(jobs.c.ended_at.desc(), jobs.c.id.desc())
    .limit(bindparam("most"))
)

HELD_SINCE = (  # the attempts of jobs that live, or ended since a moment
    sa.select(jobs.c.body, attempts.c.body)
    .join(jobs, jobs.c.id == attempts.c.job)
    .where(sa.or_(jobs.c.ended_at >= bindparam("since"), jobs.c.live == 1))
    .order_by(jobs.c.n, attempts.c.number)
)

READ_ATTEMPT = sa.select(attempts.c.body).where(attempts.c.id == bindparam("attempt"))  # one attempt
KNOWN_JOBS = sa.select(jobs.c.id).where(jobs.c.id.in_(bindparam("ids", expanding=True)))  # which of these there are
KNOWN_ATTEMPTS = sa.select(attempts.c.id).where(attempts.c.id.in_(bindparam("ids", expanding=True)))  # and of these
READ_TRY = sa.select(attempts.c.body).where(  # a job's attempt by its number
    attempts.c.job == bindparam("of"), attempts.c.number == bindparam("try_number")
)
ADD_ATTEMPT = sa.insert(attempts)  # fails if the job has a live one
UPDATE_ATTEMPT = (  # after a change
    sa.update(attempts)
    .where(attempts.c.id == bindparam("the_attempt"))
    .values(live=bindparam("is_live"), body=bindparam("new_body"))
)

HOLD = sa.insert(holdings)  # fails on a device that has not so much left
RELEASE = sa.delete(holdings).where(holdings.c.attempt == bindparam("holder"))  # all that an attempt holds

ADD_NODE = sa.insert(nodes)  # as last seen
DROP_NODE = sa.delete(nodes).where(nodes.c.name == bindparam("node_name"))  # before it is added anew, or for good
READ_NODES = sa.select(nodes.c.body)  # all of them

ADD_RECORD = sa.insert(node_records)  # what is kept of a node
DROP_RECORD = sa.delete(node_records).where(node_records.c.node == bindparam("of_node"))  # as with nodes
READ_RECORD = sa.select(node_records.c.body).where(node_records.c.node == bindparam("of_node"))  # of one node
READ_RECORDS = sa.select(node_records.c.body)  # of all
LEADER = sa.select(lead)  # who took the lead last
FIRST_TERM = sa.insert(lead)  # somebody leads for the first time
NEXT_TERM = sa.update(lead).values(  # or takes the lead from another
    term=lead.c.term + 1, who=bindparam("leader"), since=bindparam("from_now")
)
