"""The road of one replica, with real processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stoker.core.states import FINAL_REPLICA_STATES
from tests.contract.engine_contract import a_launch, until
from tests.contract.test_engines import a_local_engine


@pytest.mark.parametrize(("is_container", "code"), [(True, 139), (False, 11)])
def test_a_segmentation_fault_in_a_container_is_128_more(tmp_path: Path, is_container: bool, code: int) -> None:
    launch = a_launch("sh", "-c", "kill -SEGV $$")
    launch = replace(launch, replicas=tuple(replace(r, is_container=is_container) for r in launch.replicas))
    engine = a_local_engine(tmp_path)
    engine.start(engine.render(launch))
    assert until(engine, *FINAL_REPLICA_STATES).exit_code == code
