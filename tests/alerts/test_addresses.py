"""Which addresses may be delivered to."""

from __future__ import annotations

import pytest

from stoker.alerts.addresses import is_allowed, refusal, resolve

CLOSED = """127.0.0.1 127.8.9.1 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 224.0.0.1 239.1.1.1 240.0.0.1
255.255.255.255 198.18.0.1 192.0.2.1 ::1 :: fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 fec0::1 ff02::1 2001:db8::1
::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 2002:7f00:1::
2002:a00:1::1 100::1""".split()


@pytest.mark.parametrize("address", CLOSED)
def test_what_is_not_public_is_closed(address: str) -> None:
    assert not is_allowed(address, [])


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_what_is_public_is_open(address: str) -> None:
    assert is_allowed(address, [])


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "fd00::7"])
def test_networks_may_be_allowed(address: str) -> None:
    assert is_allowed(address, ["10.0.0.0/8", "fd00::/8"])
    assert not is_allowed(address, ["192.168.0.0/16", "fd01::/16"])


def test_one_closed_address_spoils_a_name_and_is_named() -> None:
    assert refusal("hook.test", ["8.8.8.8"], []) == ""
    said = refusal("hook.test", ["8.8.8.8", "10.0.0.1"], [])
    assert said.startswith("hook.test leads to 10.0.0.1, which is not a public address") and "alerts_networks" in said
    assert refusal("10.0.0.1", ["10.0.0.1"], []).startswith("10.0.0.1 is not")
    assert refusal("hook.test", [], []) == "hook.test has no address"


def test_numbers_in_odd_forms_are_resolved_before_they_are_looked_at() -> None:
    """2130706433, 0x7f.1 and 127.1 are 127.0.0.1 to the system."""
    for host in ("2130706433", "0x7f.1", "127.1", "0177.0.0.1", "localhost"):
        assert not any(is_allowed(address, []) for address in resolve(host, 80)), host


def test_what_is_no_name_is_told() -> None:
    with pytest.raises(OSError, match="no name of a host"):
        resolve("a" * 64 + ".test", 80)
