"""The store contract over every store."""

from __future__ import annotations

from .store_contract import StoreContract


class TestStores(StoreContract):
    """The fixture `store` is each of them in turn."""
