"""The parts of a program's state: who saves which, and how they come back. loops.py says when."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional

from stoker.frameworks.checkpointing.parts.jax_arrays import JaxParts, holds_arrays
from stoker.frameworks.checkpointing.parts.part import Objects, Part, another_program, has_state
from stoker.frameworks.checkpointing.parts.torch_modules import TorchParts, digest_of, is_sharded, steps_parameters_of
from stoker.frameworks.checkpointing.parts.variables import VariableParts, is_trained
from stoker.frameworks.messages import NotNow, Refused, passes, say
from stoker.frameworks.metrics.meter import meter, tell_resumed
from stoker.frameworks.processes.agreement import Alone, agreement
from stoker.frameworks.processes.cluster import cluster_of
from stoker.frameworks.processes.seeding import is_aside

from .checkpoints import Checkpoint, Checkpoints
from .remote import checkpoints_at
from .saving import Saved, Saving

_MOST_BATCHES = 512
"""A program whose optimizers have not stepped by then steps in a way of its own, and is not waited for. Until one does step."""


class Keeping:
    """The checkpoints of one State."""

    def __init__(self, parts: Dict[str, Any], folder: str, variables: Mapping[str, str]) -> None:
        """`parts`: by name, as the program gives them. `folder`: of the checkpoints; empty: nothing is saved."""
        self._parts = parts
        self._folder = folder
        self._variables = variables
        self._cluster = cluster_of(variables)
        self._kinds: List[Part] = []
        self.own = Objects(parts, [], 0)
        self.together = Alone()
        self.saving: Optional[Saving] = None  # None: nothing is saved
        self._has_stepped = False
        self._waited_batches = 0
        self._most_batches = _MOST_BATCHES
        self._steps_by_itself = True
        self._trained_before = 0  # steps that optimizers took, in attempts before this one

    @property
    def is_chief(self) -> bool:
        """Whether it is this process that decides when to save."""
        return not self.together.rank

    def begin(self) -> Optional[Checkpoint]:
        """Find out who trains and saves, and fill the parts from the newest whole checkpoint, if there is one."""
        if not self._folder:
            if self._cluster.rank >= 0 and self._variables.get("STOKER_JOB_ID"):
                say("nothing is saved: the job has no directory (--job-dir)")
            return None
        jax: Any = sys.modules.get("jax")
        uses_jax = jax is not None and any(holds_arrays(jax, value) for value in self._parts.values())
        self.together = agreement(jax if uses_jax else None)
        if self.together.count > 1:
            self._check_alike()
        self._kinds = self._kinds_of(jax if uses_jax else None)
        folder = self._folder
        if self.together.count == 1 and self._cluster.processes > 1:
            if any(isinstance(kind, VariableParts) for kind in self._kinds):
                raise Refused(
                    "workers of TensorFlow that train together in a loop of their own cannot be saved together",
                    "use fit with --checkpoints, or one replica with several GPUs",
                )
            folder = os.path.join(folder, f"alone-{self._cluster.rank}")
            say(f"its processes train each by itself, as far as can be seen: this one saves in {folder}")
        checkpoints = checkpoints_at(folder)
        if uses_jax and self.together.count > 1 and checkpoints.is_remote:
            raise Refused(
                "arrays of JAX that several processes train are saved where all can write: no bucket, and no copy of a folder",
                "give a --job-dir that all machines share",
            )
        number = f"{self._variables.get('STOKER_ATTEMPT', '0')}-{self._variables.get('STOKER_RESTART_COUNT', '0')}"
        self.saving = Saving(checkpoints, self.together.rank, self.together.count, number)
        found = self._agreed(checkpoints)
        if found is not None:
            self._restore(found)
            checkpoints.release(found)
        return found

    def save(self, step: int, told: Dict[str, Any], extra: Dict[str, Any], *, waits: bool) -> Saved:
        """All processes have to, after the same step. `told`: of this one, `extra`: of this process. `waits`: until it counts."""
        saving = self.saving
        assert saving is not None
        saving.wait()
        self.own.extra = extra
        measures = meter()
        if measures is not None and measures.step_count:  # of which each may take several batches
            told = {**told, "step": self._trained_before + measures.step_count}
        saved = saving.start(step, {**told, "parts": self._kinds_by_name()}, [kind.stage for kind in self._kinds])
        if waits:
            saved.has_written.wait()
            (saved.is_given_up,) = map(bool, self.together.most([float(saved.has_failed)]))
            saving.wait()
        if measures is not None:
            measures.saving(saved.stall_seconds)
        return saved

    @property
    def is_counted(self) -> bool:
        """Whether PyTorch's optimizers tell of the steps."""
        torch: Any = sys.modules.get("torch")
        return torch is not None and any(isinstance(its, torch.optim.Optimizer) for its in self._parts.values())

    def is_between_steps(self) -> bool:
        """Asked after each batch: whether an optimizer has stepped. Gradients that wait for one are in no checkpoint."""
        if self._steps_by_itself:
            return True
        self._waited_batches += 1
        if self._has_stepped:
            self._most_batches = max(self._most_batches, 2 * self._waited_batches)
            self._has_stepped, self._waited_batches = False, 0
            return True
        return self._waited_batches >= self._most_batches

    def _kinds_of(self, jax: Any) -> List[Part]:
        """The parts, by who saves them."""
        left, together = dict(self._parts), self.together
        kinds: List[Part] = []

        def take(make: Callable[[Dict[str, Any]], Part], chosen: Dict[str, Any]) -> None:
            if chosen:
                kinds.append(make(chosen))
                for name in chosen:
                    del left[name]

        torch: Any = sys.modules.get("torch")
        if torch is not None:
            models = {name: its for name, its in left.items() if isinstance(its, torch.nn.Module)}
            optimizers = {name: its for name, its in left.items() if isinstance(its, torch.optim.Optimizer)}
            for optimizer in optimizers.values():
                self._steps_by_itself = False
                optimizer.register_step_post_hook(self._note_step)
            stepping = {n: its for n, its in optimizers.items() if steps_parameters_of(its, list(models.values()))}
            if models:
                take(
                    lambda _: TorchParts(torch, models, stepping, together.rank, together.count),
                    {**models, **stepping},
                )
        take(
            lambda its: VariableParts(its, together.rank),
            {name: its for name, its in left.items() if not has_state(its) and is_trained(its)},
        )
        if jax is not None:
            take(
                lambda its: JaxParts(jax, self._parts, list(its), together.rank, together.count),
                {name: its for name, its in left.items() if not has_state(its) and holds_arrays(jax, its)},
            )
        self.own = Objects(self._parts, sorted(left), together.rank)
        return [*kinds, self.own]

    def _check_alike(self) -> None:
        """Raise Refused where processes have other models, of which the chief would save its own alone. All have to call it."""
        torch: Any = sys.modules.get("torch")
        models = {
            name: its for name, its in self._parts.items() if torch is not None and isinstance(its, torch.nn.Module)
        }
        digest = 0.0 if not models or is_sharded(models.values()) else float(digest_of(models))
        largest, least = self.together.most([digest, -digest])
        if largest != -least:
            raise Refused(
                "its processes have models of other parts, such as the stages of a pipeline, and these cannot be saved together",
                "cut the model by DTensors (torch.distributed.tensor), or save the stages in the program",
            )

    def _note_step(self, *_: Any) -> None:
        if not is_aside():
            self._has_stepped = True

    def _kinds_by_name(self) -> Dict[str, str]:
        """What is said of the parts beside them: of what kind each is."""
        return {name: what for kind in self._kinds for name, what in kind.kinds.items()}

    def _agreed(self, checkpoints: Checkpoints) -> Optional[Checkpoint]:
        """The checkpoint to begin from: the chief's choice, for all."""
        found, problem, is_passing = None, "", False
        try:
            if self.is_chief:
                checkpoints.sweep()
                found = checkpoints.latest()
        except OSError as error:
            problem, is_passing = f": {error}", passes(error)
        step, has_failed, may_pass = self.together.most(
            [found.step + 1 if found is not None else 0, float(bool(problem)), float(is_passing)]
        )
        if has_failed:
            self._give_up(checkpoints, problem, is_passing=bool(may_pass))
        if not self.is_chief and step:
            try:
                found = checkpoints.at(int(step) - 1, is_proved=True)
            except OSError as error:
                self._give_up(checkpoints, f": {error}", is_passing=passes(error))
            if found is None:
                raise Refused(
                    f"the chief goes on at step {int(step) - 1}, and that checkpoint is not to be found here "
                    f"({checkpoints.place})",
                    "give a --job-dir that all machines share",
                )
        return found

    def _give_up(self, checkpoints: Checkpoints, problem: str, *, is_passing: bool) -> None:
        """Raises SystemExit: who began anew would write over what is there."""
        why = f"{checkpoints.place} cannot be used{problem}"
        raise NotNow(why) if is_passing else Refused(why, "give a --job-dir that may be written to and read")

    def _restore(self, found: Checkpoint) -> None:
        theirs, ours = found.state["parts"], self._kinds_by_name()
        for name in sorted({*theirs, *ours}):
            if theirs.get(name) != ours.get(name):
                was, now = theirs.get(name, "missing"), ours.get(name, "missing")
                raise another_program(found, f"its {name} is {was}, the program's {now}")
        try:
            for kind in self._kinds:
                kind.restore(found)
        except OSError as error:
            raise Refused(
                f"the checkpoint of step {found.step} cannot be read: {error}", "see whether its folder is there"
            ) from None
        self._trained_before = found.state.get("step", found.step)
        tell_resumed(self._trained_before)


def is_filled(value: Any) -> bool:
    """Whether a part is filled where it is, so that it cannot be another one tomorrow."""
    return has_state(value) or is_trained(value)
