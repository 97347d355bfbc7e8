"""What every kind of job must do."""

from __future__ import annotations

from stoker.core.job import Attempt, Placement, Replica
from stoker.core.launch import Surroundings
from stoker.kinds.base import Kind
from tests.builders import a_job


class KindContract:
    """Subclass it and give `make`."""

    def make(self) -> Kind:
        """The kind."""
        raise NotImplementedError

    def test_every_placed_replica_is_launched_where_it_was_placed(self) -> None:
        job = a_job(gpus=2, workers=2, ps=1)
        roles = [("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0)]
        attempt = Attempt(
            id=f"{job.id}.1",
            job=job.id,
            number=1,
            engine="e",
            placements=tuple(Placement(role=r, index=i, node=f"n{r}{i}", devices=(f"d{r}{i}",)) for r, i in roles),
            placed_at=0.0,
            replicas=tuple(Replica(role=r, index=i) for r, i in roles),
        )
        surroundings = Surroundings(python="/py")
        launch = self.make().launch(job, attempt, surroundings)
        assert launch == self.make().launch(job, attempt, surroundings), "it is pure"
        assert launch.attempt == attempt.id
        assert [(r.role, r.index, r.node, r.devices) for r in launch.replicas] == [
            (p.role, p.index, p.node, p.devices) for p in attempt.placements
        ]
        assert all(replica.command for replica in launch.replicas)
