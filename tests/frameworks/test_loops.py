"""Loops of a program's own go on where they were: at the same batch, with the same chance, to the same bit."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler

from stoker import checkpoint

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
        state = checkpoint.State(model=self.model, optimizer=self.optimizer, schedule=self.schedule, losses=[])
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
        state = checkpoint.State(count=0)
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
    state = checkpoint.State(best=0.0)
    for epoch in state.epochs(4):
        state.best = epoch / 2
        if epoch == 2:
            state._loops._rhythm.hurry()
    found = checkpoint.latest()
    assert found is not None and found.step == state.step == 4
    again = checkpoint.State(best=0.0)
    assert again.restore() and again.best == 1.5 and not list(again.epochs(4))
    more = checkpoint.State(best=0.0)
    assert list(more.epochs(6)) == [4, 5], "there are more to do now"
    assert list(again.epochs(1)) == [0], "another loop, which was never reached"


def test_after_a_break_the_next_epoch_begins(folder: Path) -> None:
    state = checkpoint.State(seen=[])
    for epoch in state.epochs(2):
        for number in state.batches([10, 20, 30]):
            state.seen = [*state.seen, (epoch, number)]
            if number == 20:
                break
    assert state.seen == [(0, 10), (0, 20), (1, 10), (1, 20)]


def test_a_loop_that_is_left_hears_no_more(folder: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    for _ in checkpoint.State(n=1).steps(3):
        assert signal.getsignal(signal.SIGTERM) is not before
        break
    assert signal.getsignal(signal.SIGTERM) is before


def test_elsewhere_the_loops_just_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = checkpoint.State(model=torch.nn.Linear(1, 1))
    assert [(e, b) for e in state.epochs(2) for b in state.batches("ab")] == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    state.save()
    assert checkpoint.latest() is None and not state.restore() and capsys.readouterr().err == ""


def test_a_parameter_server_saves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_ROLE", "evaluator")
    assert list(checkpoint.State(n=1).steps(2)) == [0, 1] and not folder.exists()


@pytest.mark.parametrize("name", ["epochs", "step", "_hidden"])
def test_names_that_are_taken(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' cannot be the name of a part"):
        checkpoint.State(**{name: 1})


def test_parts_that_are_not_there() -> None:
    state = checkpoint.State(model=1)
    with pytest.raises(AttributeError, match="no part 'modle': it has model"):
        state.modle  # noqa: B018
    with pytest.raises(AttributeError, match="no part 'modle'"):
        state.modle = 2


def test_loops_within_loops() -> None:
    state = checkpoint.State()
    with pytest.raises(ValueError, match="twice in an epoch"):
        for _ in state.epochs(1):
            for _ in state.batches("ab"):
                pass
            list(state.batches("ab"))
    other = checkpoint.State()
    with pytest.raises(ValueError, match=r"epochs\(\) within epochs"):
        for _ in other.epochs(1):
            list(other.epochs(1))


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (lambda: {"model": torch.nn.Linear(4, 3)}, r"its model.weight is \(2, 4\), the program's \(3, 4\)"),
        (lambda: {"model": torch.nn.Linear(4, 2, bias=False)}, "it has model.bias, which the program does not"),
        (lambda: {"model": torch.nn.ModuleList([torch.nn.Linear(4, 2)])}, "it does not have model.0.bias, model.0.w"),
        (lambda: {"model": torch.nn.Linear(4, 2), "best": 1.0}, "its best is missing, the program's a value"),
        (dict, "its model is a model or an optimizer of PyTorch, the program's missing"),
        (lambda: {"model": 3}, "the program's a value"),
    ],
)  # fmt: skip
def test_a_checkpoint_of_another_program(folder: Path, parts: Callable[[], dict[str, Any]], why: str) -> None:
    checkpoint.State(model=torch.nn.Linear(4, 2)).save()
    with pytest.raises(SystemExit, match=rf"the checkpoint of step 0 is of another model: .*{why}.*; give another"):
        checkpoint.State(**parts()).restore()


def test_of_damaged_files_the_one_before_is_taken(folder: Path) -> None:
    for count in (2, 3):
        state = checkpoint.State(n=0)
        for step in state.steps(count):
            state.n = step + 1
    newest = folder / "step-000000003"
    (newest / "process-0").write_bytes(b"")
    again = checkpoint.State(n=0)
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
            self.state = checkpoint.State(**vars(self))

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

    state = checkpoint.State(thing=NoRoom())
    assert list(state.steps(3)) == [0, 1, 2]
    assert (
        "the checkpoint of step 3 could not be written, the one before is kept: [Errno 28]" in capsys.readouterr().err
    )


def test_nowhere_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_CHECKPOINT_DIR", "gs://bucket/run")
    with pytest.raises(SystemExit, match="gs://bucket/run is no folder of this machine; give a --job-dir"):
        checkpoint.State(n=1)
