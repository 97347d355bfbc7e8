"""What every way to read GPUs must do."""

from __future__ import annotations

from stoker.gpu.driver import Driver
from stoker.gpu.metrics import BY_NAME


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

    def test_its_reader_reads_the_same_devices_by_known_names(self) -> None:
        driver = self.make()
        reader = driver.reader()
        assert (reader is None) == (not driver.devices())
        if reader is not None:
            readings = reader.read(slow=True)
            assert [found.device for found in readings if not found.device.mig_profile] == list(driver.devices())
            assert all(set(found.values) <= set(BY_NAME) for found in readings)
            assert isinstance(reader.processes(), list) and not reader.errors()
            reader.close()
