"""The fixtures of what is made up: one server for all examples of a module, and the doors to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker.app import Stoker, build
from stoker.config import read_config
from stoker.gpu.drivers.fake import FakeDriver
from tests.api.bodies import PACKAGE
from tests.homes import a_home
from tests.property.doors import DOORS, Door


@pytest.fixture(scope="module")
def stoker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stoker]:
    """A Stoker at rest, with the package of the bodies, and something in the place of every image."""
    home, images = a_home(tmp_path_factory.mktemp("home")), {"*": "python3 -c pass"}
    flags = {"home": str(home), "hold": True, "fake": "10x4xT4,3xn1-highmem-8", "images": images}
    made = build(read_config({}, flags=flags), url="http://127.0.0.1:1", driver=FakeDriver())
    made.loop.tick()
    with made.services.files.write(PACKAGE) as file:
        file.write(b"a package")
    yield made
    made.store.close()


@pytest.fixture(params=DOORS, ids=lambda door: door.document)
def door(request: pytest.FixtureRequest) -> Door:
    """Each dialect in which jobs are made."""
    found: Door = request.param
    return found
