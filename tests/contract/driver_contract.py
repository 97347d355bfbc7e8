"""What every way to read GPUs must do."""

from __future__ import annotations

from stoker.gpu.driver import Driver


class DriverContract:
    """Subclass it and give `make`."""

    def make(self) -> Driver:
        """The driver."""
        raise NotImplementedError

    def test_asking_never_raises_and_ids_are_unique(self) -> None:
        devices = self.make().devices()
        assert len({device.uuid for device in devices}) == len(devices)
        assert [device.index for device in devices] == sorted({device.index for device in devices})
        assert all(device.product and device.memory_bytes > 0 for device in devices)

    def test_asked_twice_it_says_the_same(self) -> None:
        driver = self.make()
        assert list(driver.devices()) == list(driver.devices())
