"""TensorBoard on a job: where its files come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.cli.verbs.tensorboard import event_folder
from stoker.core.errors import NotFound

NOTHING: dict[str, Any] = {"replicas": []}


def details(path: str = "", uri: str = "") -> dict[str, Any]:
    return {"name": "j", "job_dir": uri or path, "job_dir_path": path}


def test_the_directory_of_the_job(tmp_path: Path) -> None:
    with event_folder(details(str(tmp_path), "gs://bucket/j"), NOTHING) as folder:
        assert folder == str(tmp_path)
    with event_folder(details("gs://bucket/j"), NOTHING) as folder:
        assert folder == "gs://bucket/j", "TensorBoard reads it from the cloud itself"


@pytest.mark.campaign
def test_without_one_the_steps_that_the_server_knows() -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    point = {"at": 1.0, "step": 3, "steps_per_second": 2.0, "data_wait_share": None, "values": {"loss": "nan"}}
    training = {"replicas": [{"replica": "chief-0", "series": [point]}]}
    with event_folder(details(), training) as folder:
        found = EventAccumulator(f"{folder}/chief-0").Reload()
        assert sorted(found.Tags()["scalars"]) == ["loss", "stoker/steps_per_second"]
        assert found.Scalars("stoker/steps_per_second")[0].step == 3
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    ("place", "words"), [("", "it has no directory"), ("/none", "nothing is written in /none yet")]
)
def test_where_there_is_nothing_that_is_said(place: str, words: str) -> None:
    with pytest.raises(NotFound, match=words), event_folder(details(place), NOTHING):
        pass
