"""The contracts of policies, placers, kinds and drivers over every member there is."""

from __future__ import annotations

from stoker.alerts.channel import Channel, Means
from stoker.alerts.channels.email import Email
from stoker.alerts.channels.slack import Slack
from stoker.alerts.channels.webhook import Webhook
from stoker.gpu.driver import Driver
from stoker.gpu.drivers.amdsmi import AmdSmiDriver
from stoker.gpu.drivers.fake import FakeDriver
from stoker.gpu.drivers.nvml import NvmlDriver
from stoker.kinds.base import Kind
from stoker.kinds.training import Training
from stoker.registry import MEMBERS
from stoker.scheduling.base import Placer, Policy
from stoker.scheduling.placers.best_fit import BestFit
from stoker.scheduling.placers.fgd import Fgd
from stoker.scheduling.placers.pack import Pack
from stoker.scheduling.placers.shadow_price import ShadowPrice
from stoker.scheduling.placers.spread import Spread
from stoker.scheduling.policies.fifo import Fifo
from stoker.scheduling.policies.ftf import FinishTimeFairness
from stoker.scheduling.policies.gittins import Gittins
from stoker.scheduling.policies.las import Las
from stoker.scheduling.policies.priority import Priority
from stoker.scheduling.policies.srsf import Srsf
from tests.gpu.test_amdsmi import a_library

from .channel_contract import ChannelContract
from .driver_contract import DriverContract
from .kind_contract import KindContract
from .placer_contract import PlacerContract
from .policy_contract import PolicyContract


def names_of(host: str, port: int) -> list[str]:
    """Names are public, and numbers are themselves."""
    return [host] if host[:1].isdigit() else ["8.8.8.8"]


class TestFifo(PolicyContract):
    def make(self) -> Policy:
        return Fifo()


class TestPriority(PolicyContract):
    def make(self) -> Policy:
        return Priority()


class TestFinishTimeFairness(PolicyContract):
    def make(self) -> Policy:
        return FinishTimeFairness()


class TestGittins(PolicyContract):
    def make(self) -> Policy:
        return Gittins()


class TestLas(PolicyContract):
    def make(self) -> Policy:
        return Las()


class TestSrsf(PolicyContract):
    def make(self) -> Policy:
        return Srsf()


class TestBestFit(PlacerContract):
    def make(self) -> Placer:
        return BestFit()


class TestPack(PlacerContract):
    def make(self) -> Placer:
        return Pack()


class TestSpread(PlacerContract):
    def make(self) -> Placer:
        return Spread()


class TestFgd(PlacerContract):
    def make(self) -> Placer:
        return Fgd()


class TestShadowPrice(PlacerContract):
    def make(self) -> Placer:
        return ShadowPrice()


class TestTraining(KindContract):
    def make(self) -> Kind:
        return Training()


class TestFakeDriver(DriverContract):
    def make(self) -> Driver:
        return FakeDriver("Tesla T4", "Tesla T4")


class TestAmdSmi(DriverContract):
    def make(self) -> Driver:
        return AmdSmiDriver(a_library())


class TestNvml(DriverContract):
    """On a machine without NVIDIA's driver it says that there are no GPUs."""

    def make(self) -> Driver:
        return NvmlDriver()


class TestWebhook(ChannelContract):
    def make(self) -> Channel:
        return Webhook(Means(resolve=names_of))


class TestSlack(ChannelContract):
    def make(self) -> Channel:
        return Slack(Means(resolve=names_of))


class TestEmail(ChannelContract):
    good = "ada@example.org"
    nobody = "ada@example.org"

    def make(self) -> Channel:
        return Email(Means(smtp="smtp://127.0.0.1:1", sender="stoker@example.org"))


def test_every_member_has_its_contract_here() -> None:
    assert set(MEMBERS["policies"]) == {"fifo", "ftf", "gittins", "las", "priority", "srsf"}
    assert set(MEMBERS["placers"]) == {"best-fit", "fgd", "pack", "shadow-price", "spread"}
    assert set(MEMBERS["kinds"]) == {"training"}
    assert set(MEMBERS["channels"]) == {"email", "slack", "webhook"}
    assert set(MEMBERS["drivers"]) == {"amdsmi", "fake", "nvml"}
