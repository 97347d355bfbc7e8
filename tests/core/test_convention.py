"""What replicas are called."""

from __future__ import annotations

import pytest

from stoker.core.convention import Convention, replica_title, task_name


@pytest.mark.parametrize(
    ("role", "titles", "names"),
    [
        ("chief", ("master 2", "workerpool0-2"), ("master-replica-2", "workerpool0-2")),
        ("worker", ("worker 2", "workerpool1-2"), ("worker-replica-2", "workerpool1-2")),
        ("ps", ("ps 2", "workerpool2-2"), ("ps-replica-2", "workerpool2-2")),
        ("evaluator", ("evaluator 2", "workerpool3-2"), ("evaluator-replica-2", "workerpool3-2")),
    ],
)
def test_each_service_has_its_own_names(role: str, titles: tuple[str, str], names: tuple[str, str]) -> None:
    both = (Convention.AI_PLATFORM, Convention.VERTEX)
    assert tuple(replica_title(c, role, 2) for c in both) == titles
    assert tuple(task_name(c, role, 2) for c in both) == names
