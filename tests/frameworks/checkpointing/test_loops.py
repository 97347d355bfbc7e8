"""Loops of a program's own go on where they were: at the same batch, with the same chance, to the same bit."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler

from stoker import checkpoint
from stoker.frameworks.checkpointing.parts.torch_modules import digest_of

EPOCHS = 3
EXAMPLES = 48
BATCHES = 6


class Examples(Dataset[Any]):
    """Each is drawn upon by chance when it is read."""

    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, number: int) -> Any:
        return torch.full((4,), number / EXAMPLES) + 0.1 * torch.randn(4), torch.tensor([number % 3 / 2.0])


class Stream(IterableDataset[Any]):
    """They come one after another."""

    def __iter__(self) -> Iterator[Any]:
        yield from map(Examples().__getitem__, range(EXAMPLES))


def of_a_generator() -> Any:
    return DataLoader(Examples(), batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(3))


def of_a_batch_sampler() -> Any:
    return DataLoader(Examples(), batch_sampler=BatchSampler(RandomSampler(Examples()), 8, drop_last=True))


LOADERS: dict[str, Callable[[], Any]] = {
    "shuffled": lambda: DataLoader(Examples(), batch_size=8, shuffle=True),
    "in order": lambda: DataLoader(Examples(), batch_size=8),
    "generator": of_a_generator,
    "batch sampler": of_a_batch_sampler,
    "stream": lambda: DataLoader(Stream(), batch_size=8),
    "list": lambda: [(torch.full((8, 4), float(n)), torch.ones(8, 1)) for n in range(BATCHES)],
    "range": lambda: range(BATCHES),
}


def a_state(**parts: Any) -> checkpoint.State:
    """The first of a program that is started anew."""
    checkpoint._numbers = itertools.count(1)
    return checkpoint.State(**parts)


class Simple:
    """A value of the program's own."""

    def __init__(self, n: int) -> None:
        self.n = n


class Stopped(Exception):
    """The program ends here."""


class Program:
    """A training program that is started anew each time."""

    def __init__(self, loader: str = "shuffled", width: int = 5) -> None:
        torch.manual_seed(7)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Dropout(0.3), torch.nn.Linear(width, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 0.05)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.5)
        self.loader = LOADERS[loader]()
        self.seen: list[tuple[int, int]] = []

    def train(self, at: tuple[int, int] | None = None, act: Callable[[checkpoint.State], object] | None = None) -> Any:
        """All epochs. `at`: at this epoch and step of it `act` is called."""
        state = a_state(model=self.model, optimizer=self.optimizer, schedule=self.schedule, losses=[])
        for epoch in state.epochs(EPOCHS):
            for batch in state.batches(self.loader):
                inputs, wanted = batch if not isinstance(batch, int) else (torch.randn(8, 4), torch.full((8, 1), 0.5))
                self.optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(self.model(inputs), wanted)
                loss.backward()
                self.optimizer.step()
                self.seen.append((epoch, state.step))
                state.losses = [*state.losses, loss.item()]
                if at == (epoch, state.step) and act is not None:
                    act(state)
            self.schedule.step()
        return state

    def result(self) -> list[Any]:
        weights = [parameter.tolist() for parameter in self.model.parameters()]
        return [weights, self.schedule.get_last_lr(), self.optimizer.state_dict()["param_groups"][0]["lr"]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the job's checkpoints are."""
    monkeypatch.setenv("STOKER_CHECKPOINT_DIR", str(tmp_path))
    monkeypatch.setenv("STOKER_CHECKPOINTS", "3600")
    return tmp_path / "state"


def save_and_stop(state: checkpoint.State) -> None:
    """At the end of this step it is saved, and the program ends."""
    state.save()
    look = state._loops._look

    def look_and_stop(**words: bool) -> None:
        look(**words)
        raise Stopped

    state._loops._look = look_and_stop


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("at", [(0, 2), (1, 6), (1, 9), (2, 17)], ids=str)
def test_it_ends_as_if_nobody_had_touched_it(
    folder: Path, loader: str, at: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Program(loader)
    with monkeypatch.context() as elsewhere:
        elsewhere.delenv("STOKER_CHECKPOINT_DIR")
        untouched = whole.train()
    first = Program(loader)
    with pytest.raises(Stopped):
        first.train(at, save_and_stop)
    torch.manual_seed(99)
    again = Program(loader)
    state = again.train()
    assert first.seen + again.seen == whole.seen, "no batch twice, none left out"
    assert again.result() == whole.result() and state.losses == untouched.losses, "bit by bit"


def test_told_to_stop_it_saves_at_the_end_of_the_step(folder: Path) -> None:
    first, before = Program(), signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        first.train((1, 9), lambda _: os.kill(os.getpid(), signal.SIGTERM))
    signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 143
    found = checkpoint.latest()
    assert found is not None and found.step == 10 and [path.name for path in folder.iterdir()] == ["step-000000010"]


def test_outside_of_its_loops_term_is_the_programs(folder: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    Program().train()
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_is_over_is_not_done_again(folder: Path) -> None:
    first, again = Program(), Program()
    first.train()
    again.train()
    assert first.seen and not again.seen and again.result() == first.result()


def test_a_second_loop_is_gone_on_with(folder: Path) -> None:
    def train(stops_at: int) -> list[tuple[str, int]]:
        done: list[tuple[str, int]] = []
        state = a_state(count=0)
        for epoch in state.epochs(2):
            done.append(("first", epoch))
        for step in state.steps(5):
            done.append(("second", step))
            state.count += 1
            if step == stops_at:
                save_and_stop(state)
        assert state.count == 5
        return done

    with pytest.raises(Stopped):
        train(2)
    assert train(-1) == [("second", 3), ("second", 4)]


def test_an_epoch_without_batches_counts(folder: Path) -> None:
    state = a_state(best=0.0)
    for epoch in state.epochs(4):
        state.best = epoch / 2
        if epoch == 2:
            state._loops._rhythm.hurry()
    found = checkpoint.latest()
    assert found is not None and found.step == state.step == 4
    again = a_state(best=0.0)
    assert again.restore() and again.best == 1.5 and not list(again.epochs(4))
    more = a_state(best=0.0)
    assert list(more.epochs(6)) == [4, 5], "there are more to do now"
    assert list(again.epochs(1)) == [0], "another loop, which was never reached"


def test_after_a_break_the_next_epoch_begins(folder: Path) -> None:
    state = a_state(seen=[])
    for epoch in state.epochs(2):
        for number in state.batches([10, 20, 30]):
            state.seen = [*state.seen, (epoch, number)]
            if number == 20:
                break
    assert state.seen == [(0, 10), (0, 20), (1, 10), (1, 20)]


def test_a_loop_that_is_left_hears_no_more(folder: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    for _ in a_state(n=1).steps(3):
        assert signal.getsignal(signal.SIGTERM) is not before
        break
    assert signal.getsignal(signal.SIGTERM) is before


def test_elsewhere_the_loops_just_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = a_state(model=torch.nn.Linear(1, 1))
    assert [(e, b) for e in state.epochs(2) for b in state.batches("ab")] == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    state.save()
    assert checkpoint.latest() is None and not state.restore() and capsys.readouterr().err == ""


def test_a_parameter_server_saves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_ROLE", "evaluator")
    assert list(a_state(n=1).steps(2)) == [0, 1] and not folder.exists()


@pytest.mark.parametrize("name", ["epochs", "step", "_hidden"])
def test_names_that_are_taken(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' cannot be the name of a part"):
        a_state(**{name: 1})


def test_parts_that_are_not_there() -> None:
    state = a_state(model=1)
    with pytest.raises(AttributeError, match="no part 'modle': it has model"):
        state.modle  # noqa: B018
    with pytest.raises(AttributeError, match="no part 'modle'"):
        state.modle = 2


def test_loops_within_loops() -> None:
    state = a_state()
    with pytest.raises(ValueError, match="twice in an epoch"):
        for _ in state.epochs(1):
            for _ in state.batches("ab"):
                pass
            list(state.batches("ab"))
    for name, inner in (("epochs", "epochs"), ("epochs", "steps"), ("steps", "batches"), ("steps", "steps")):
        other = a_state()
        with pytest.raises(ValueError, match=rf"{inner}\(\) within {name}\(\)"):
            for _ in getattr(other, name)(1):
                list(getattr(other, inner)("ab" if inner == "batches" else 1))
    lonely = a_state()
    list(lonely.batches("ab"))
    with pytest.raises(ValueError, match="put `for epoch in"):
        list(lonely.batches("ab"))


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (lambda: {"model": torch.nn.Linear(4, 3)}, r"its model.weight is \(2, 4\), the program's \(3, 4\)"),
        (lambda: {"model": torch.nn.Linear(4, 2, bias=False)}, "it has model.bias, which the program does not"),
        (lambda: {"model": torch.nn.ModuleList([torch.nn.Linear(4, 2)])}, "it does not have model.0.bias, model.0.w"),
        (lambda: {"model": torch.nn.Linear(4, 2), "best": 1.0}, "its best is missing, the program's a value"),
        (dict, "its model is a model of PyTorch, the program's missing"),
        (lambda: {"model": 3}, "the program's a value"),
    ],
)  # fmt: skip
def test_a_checkpoint_of_another_program(folder: Path, parts: Callable[[], dict[str, Any]], why: str) -> None:
    a_state(model=torch.nn.Linear(4, 2)).save()
    with pytest.raises(SystemExit, match=rf"the checkpoint of step 0 is of another model: .*{why}.*; give another"):
        a_state(**parts()).restore()


def test_a_checkpoint_of_another_optimizer(folder: Path) -> None:
    def parts(kind: Any, **more: Any) -> dict[str, Any]:
        model = torch.nn.Linear(4, 2)
        return {"model": model, "optimizer": kind(model.parameters(), lr=0.1, **more)}

    a_state(**parts(torch.optim.SGD)).save()
    with pytest.raises(
        SystemExit, match=r"its optimizer is an optimizer of PyTorch, SGD, the program's an optimizer of Py.*Adam"
    ):
        a_state(**parts(torch.optim.Adam)).restore()
    a_state(**parts(torch.optim.SGD, momentum=0.9)).restore()


class Counts(torch.nn.Linear):
    """Has a state that is not a tensor."""

    count = 0

    def get_extra_state(self) -> Any:
        return {"count": self.count}

    def set_extra_state(self, state: Any) -> None:
        self.count = state["count"]


def test_a_model_may_keep_more_than_tensors(folder: Path) -> None:
    model = Counts(4, 2)
    model.count = 7
    a_state(model=model).save()
    again = Counts(4, 2)
    a_state(model=again).restore()
    assert again.count == 7
    assert digest_of({"m": model}) == digest_of({"m": again}) != digest_of({"m": Counts(4, 3)})


def test_of_damaged_files_the_one_before_is_taken(folder: Path) -> None:
    for count in (2, 3):
        state = a_state(n=0)
        for step in state.steps(count):
            state.n = step + 1
    newest = folder / "step-000000003"
    (newest / "process-0").write_bytes(b"")
    again = a_state(n=0)
    assert list(again.steps(3)) == [2] and again.n == 2


def test_all_that_pytorch_programs_have(folder: Path) -> None:
    """Two models with an optimizer each, one for both, tensors of its own, a frozen layer, an average and a scaler."""

    class Things:
        def __init__(self, seed: int) -> None:
            torch.manual_seed(seed)
            self.one, self.other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
            self.one.bias.requires_grad_(False)
            self.free = torch.randn(3, requires_grad=True)
            self.of_one = torch.optim.Adam([p for p in self.one.parameters() if p.requires_grad], 0.1)
            self.of_both = torch.optim.SGD([*self.one.parameters(), *self.other.parameters()], 0.1, momentum=0.9)
            self.of_none = torch.optim.Adam([self.free], 0.1)
            self.average = torch.optim.swa_utils.AveragedModel(self.one)
            self.scaler = torch.amp.GradScaler("cpu")
            self.state = a_state(**vars(self))

        def step(self) -> None:
            for optimizer in (self.of_one, self.of_both, self.of_none):
                optimizer.zero_grad()
                loss = self.other(self.one(torch.ones(4, 2))).pow(2).mean() + self.free.pow(2).sum()
                self.scaler.scale(loss).backward()
                self.scaler.step(optimizer)
            self.scaler.update()
            self.average.update_parameters(self.one)

        def all(self) -> str:
            values = {name: value for name, value in vars(self).items() if hasattr(value, "state_dict")}
            return json.dumps(
                [{n: v.state_dict() for n, v in values.items()}, self.free],
                default=lambda tensor: tensor.tolist(),
            )

    first = Things(1)
    for _ in first.state.steps(3):
        first.step()
    again = Things(2)
    assert again.state.restore() and again.all() == first.all()
    first.step()
    again.step()
    assert again.all() == first.all()


def test_where_there_is_no_room_training_goes_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class NoRoom:
        def state_dict(self) -> dict[str, int]:
            raise OSError(28, "No space left on device")

        def load_state_dict(self, state: dict[str, int]) -> None: ...

    state = a_state(thing=NoRoom())
    assert list(state.steps(3)) == [0, 1, 2]
    assert (
        "the checkpoint of step 3 could not be written, the one before is kept: [Errno 28]" in capsys.readouterr().err
    )


def test_nowhere_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_CHECKPOINT_DIR", "s3://bucket/run")
    with pytest.raises(SystemExit, match=r"s3://bucket/run/state, and the program's .* add s3fs to its requirements"):
        list(a_state(n=1).steps(1))


def test_states_of_one_program_have_a_folder_each(folder: Path) -> None:
    def folds(stops_in: int) -> list[tuple[int, int]]:
        done = []
        for fold in range(3):
            state = a_state(n=0) if not fold else checkpoint.State(n=0)
            for step in state.steps(4):
                done.append((fold, step))
                if fold == stops_in and step == 1:
                    save_and_stop(state)
        return done

    with pytest.raises(Stopped):
        folds(1)
    assert folds(-1) == [(1, 2), (1, 3), *((2, step) for step in range(4))]


def test_what_is_drawn_before_the_data_are_read_is_drawn_again(folder: Path) -> None:
    def train(stops: bool) -> list[list[int]]:
        torch.manual_seed(0)
        seen, state = [], a_state(n=0)
        for epoch in state.epochs(2):
            for batch in state.batches(torch.randperm(12).split(2)):
                seen.append(batch.tolist())
                if stops and (epoch, len(seen)) == (1, 8):
                    save_and_stop(state)
        return seen

    with pytest.raises(Stopped):
        train(True)
    rest = train(False)
    folder.rename(folder.with_name("elsewhere"))
    assert rest == train(False)[8:]


def test_to_save_steps_no_optimizer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has not stepped yet is as if nothing had been saved."""

    def train(saves: bool) -> list[Any]:
        torch.manual_seed(0)
        one, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
        of_one, of_other = torch.optim.Adam(one.parameters(), 0.1), torch.optim.Adam(other.parameters(), 0.1)
        state = a_state(one=one, other=other, of_one=of_one, of_other=of_other)
        for step in state.steps(6):
            of_other.zero_grad()
            other(torch.ones(1, 2)).sum().backward()
            of_other.step()
            if step >= 3:
                of_one.zero_grad()
                one(torch.ones(1, 2)).pow(2).sum().backward()
                of_one.step()
            if step == 1 and saves:
                save_and_stop(state)
        return [one.weight.tolist(), [float(its["step"]) for its in of_one.state.values()]]

    with monkeypatch.context() as elsewhere:
        elsewhere.delenv("STOKER_CHECKPOINT_DIR")
        untouched = train(False)
    with pytest.raises(Stopped):
        train(True)
    assert train(False) == untouched and untouched[1] == [3.0, 3.0]


def test_a_layer_that_never_had_a_gradient(folder: Path) -> None:
    def things() -> tuple[torch.nn.ModuleList, torch.optim.Optimizer, torch.optim.Optimizer]:
        model = torch.nn.ModuleList([torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)])
        return model, torch.optim.AdamW(model.parameters(), torch.tensor(0.1)), torch.optim.LBFGS(model[0].parameters())

    model, optimizer, other = things()
    for _ in a_state(model=model, optimizer=optimizer, other=other).steps(2):

        def loss(model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            value = model[0](torch.ones(1, 2)).pow(2).sum()
            value.backward()
            return value

        loss()
        optimizer.step()
        other.step(loss)
    again = things()
    assert a_state(model=again[0], optimizer=again[1], other=again[2]).restore()
    assert str(again[1].state_dict()) == str(optimizer.state_dict()) and len(again[1].state) == 2


def test_gradients_that_wait_for_a_step_are_not_lost(folder: Path) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    state = a_state(model=model, optimizer=optimizer)
    with pytest.raises(SystemExit):
        for step in state.steps(10):
            model(torch.ones(1, 1)).sum().backward()
            if step % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
            if step == 4:
                os.kill(os.getpid(), signal.SIGTERM)
    found = checkpoint.latest()
    assert found is not None and found.step == 8, "not before the optimizer has stepped"


def test_after_the_last_batch_the_epoch_has_its_end(folder: Path) -> None:
    state, ends = a_state(n=0), []
    with pytest.raises(SystemExit):
        for epoch in state.epochs(2):
            for number in state.batches([1, 2, 3]):
                if number == 3:
                    os.kill(os.getpid(), signal.SIGTERM)
            ends.append(epoch)
    assert ends == [0] and list(a_state(n=0).epochs(2)) == [1]


def test_what_can_be_filled_is_filled_where_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def values() -> dict[str, Any]:
        return {"a": [], "b": {}, "c": set(), "d": np.zeros(2), "e": np.random.default_rng(1), "f": 0, "g": Simple(0)}

    first, again = values(), values()
    state = a_state(**first)
    first["a"].append(1)
    first["b"]["x"] = 2
    first["c"].add(3)
    first["d"][:] = 4
    drawn = [first["e"].random() for _ in range(3)][-1]
    state.f, state.g.n = 5, 6
    first["e"] = state.e
    state.save()
    filled = a_state(**again)
    assert filled.restore() and again["a"] == [1] and again["b"] == {"x": 2} and again["c"] == {3}
    assert again["d"].tolist() == [4, 4] and again["e"].random() == state.e.random() != drawn
    assert (again["f"], filled.f, again["g"].n, filled.g.n) == (0, 5, 0, 6)
    assert "g, a Simple, is as it was in the state alone: use it as state.g" in capsys.readouterr().err


def test_what_is_filled_cannot_be_another_one(folder: Path) -> None:
    state = a_state(model=torch.nn.Linear(1, 1), best=1)
    state.best = 2
    state.model = state.model
    with pytest.raises(AttributeError, match="'model' is filled, not replaced"):
        state.model = torch.nn.Linear(1, 1)
