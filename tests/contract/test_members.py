"""The contracts of policies, placers, kinds and drivers over every member there is."""

from __future__ import annotations

import pytest

from stoker.gpu.device import Driver
from stoker.gpu.drivers.fake import FakeDriver
from stoker.gpu.drivers.nvml import NvmlDriver
from stoker.kinds.base import Kind
from stoker.kinds.training import Training
from stoker.registry import MEMBERS
from stoker.scheduling.base import Placer, Policy
from stoker.scheduling.placers.best_fit import BestFit
from stoker.scheduling.policies.fifo import Fifo

from .driver_contract import DriverContract
from .kind_contract import KindContract
from .placer_contract import PlacerContract
from .policy_contract import PolicyContract


class TestFifo(PolicyContract):
    @pytest.fixture
    def policy(self) -> Policy:
        return Fifo()


class TestBestFit(PlacerContract):
    def make(self) -> Placer:
        return BestFit()


class TestTraining(KindContract):
    def make(self) -> Kind:
        return Training()


class TestFakeDriver(DriverContract):
    def make(self) -> Driver:
        return FakeDriver("Tesla T4", "Tesla T4")


class TestNvml(DriverContract):
    """On a machine without NVIDIA's driver it says that there are no GPUs."""

    def make(self) -> Driver:
        return NvmlDriver()


def test_every_member_has_its_contract_here() -> None:
    assert set(MEMBERS["policies"]) == {"fifo"}
    assert set(MEMBERS["placers"]) == {"best-fit"}
    assert set(MEMBERS["kinds"]) == {"training"}
    assert set(MEMBERS["drivers"]) == {"fake", "nvml"}
