"""What a setting may be: each function makes a value of what was written, or raises ValueError with what is needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

Parser = Callable[[Any], Any]


def text(value: Any) -> str:
    """A text; a number counts as one."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError("a text is needed")


def flag(value: Any) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("1", "true", "yes", "on"):
        return True
    if str(value).lower() in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("true or false is needed")


def port(value: Any) -> int:
    """The number of a port."""
    if not str(value).isdecimal() or int(value) > 65535:
        raise ValueError("a port is a number from 0 to 65535")
    return int(value)


def seconds(value: Any) -> float:
    """Seconds, up to a day."""
    text = str(value).removesuffix("s")
    if not text.replace(".", "", 1).isdecimal() or float(text) > 86400:
        raise ValueError("seconds, from 0 to 86400, are needed")
    return float(text)


def lease(value: Any) -> float:
    """Seconds in which a lease can be renewed."""
    found = seconds(value)
    if found < 3:
        raise ValueError("3 seconds or more are needed, so that it can be renewed")
    return found


def limit(value: Any) -> int:
    """How many at most; 0 is no limit."""
    if not str(value).isdecimal() or int(value) > 1_000_000:
        raise ValueError("a number from 0 (no limit) to 1000000 is needed")
    return int(value)


def megabytes(value: Any) -> float:
    """Megabytes, with a fraction or without."""
    text = str(value)
    if isinstance(value, bool) or not text.replace(".", "", 1).isdecimal() or float(text) > 1e9:
        raise ValueError("megabytes, 0 or more, are needed")
    return float(text)


def table(value: Any) -> dict[str, str]:
    """Names and texts."""
    if isinstance(value, str):
        pairs = [pair.partition("=") for pair in value.split(",") if pair]
        if not all(separator for _, separator, _ in pairs):
            raise ValueError("name=value,name=value is needed")
        return {key.strip(): text.strip() for key, _, text in pairs}
    if isinstance(value, dict) and all(isinstance(v, str | int | float) for v in value.values()):
        return {str(key): str(text) for key, text in value.items()}
    raise ValueError("a table of names and texts is needed")


def days(value: Any) -> float:
    """Days, up to a century."""
    text = str(value).removesuffix("d")
    if not text.replace(".", "", 1).isdecimal() or float(text) > 36500:
        raise ValueError("days, from 0 to 36500, are needed")
    return float(text)


def gigabytes(value: Any) -> float:
    """Gigabytes, with a fraction or without."""
    if not str(value).replace(".", "", 1).isdecimal():
        raise ValueError("gigabytes, from 0, are needed")
    return float(value)


def count(value: Any) -> int:
    """A whole number."""
    if not str(value).isdecimal():
        raise ValueError("a whole number from 0 is needed")
    return int(value)


def count_or_auto(value: Any) -> int | str:
    """A whole number, or what the machine has."""
    return "auto" if value == "auto" else count(value)


def texts(value: Any) -> list[str]:
    """Texts."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError("texts with commas between, or a list of them, are needed")
    return [item.strip() for item in items if item.strip()]


def users(value: Any) -> str:
    """The first and the last number of a range of users."""
    first, _, last = str(value).partition("-")
    if not (first.isdecimal() and last.isdecimal() and 1000 <= int(first) <= int(last) < 2**31):
        raise ValueError("FIRST-LAST, numbers of users from 1000 up, is needed")
    return f"{int(first)}-{int(last)}"


def networks(value: Any) -> list[str]:
    """Networks, by their prefixes."""
    try:
        return [str(ip_network(item)) for item in texts(value)]
    except ValueError as error:
        raise ValueError(f"networks such as 10.20.0.0/16, with commas between, are needed: {error}") from None


def mail_server(value: Any) -> str:
    """The URL of a mail server, or nothing."""
    url, form = text(value), "smtp://[USER@]HOST[:PORT] or smtps://[USER@]HOST[:PORT] is needed"
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in ("smtp", "smtps") and parts.hostname and parts.port != 0
    except ValueError:
        raise ValueError(form) from None
    if url and (not is_whole or parts.path.strip("/") or parts.query or parts.fragment or not url.isprintable()):
        raise ValueError(form)
    if parts.password is not None:
        raise ValueError("the password goes into the setting smtp_password, which is never shown")
    return url


def password(value: Any) -> str:
    """A password as mail servers take it."""
    found = text(value)
    if not (found.isascii() and found.isprintable()):
        raise ValueError("a password of ASCII characters that can be printed is needed: mail servers take no others")
    return found


def mail_address(value: Any) -> str:
    """An address of e-mail, or nothing."""
    address = text(value)
    if address and not re.fullmatch(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9][A-Za-z0-9.-]{0,252}", address):
        raise ValueError("an address such as stoker@example.org is needed")
    return address


def one_of(*choices: str) -> Parser:
    """One of these words."""

    def parse(value: Any) -> str:
        if str(value) not in choices:
            raise ValueError(f"one of {', '.join(choices)} is needed")
        return str(value)

    return parse


def database(value: Any) -> str:
    """A database's URL, or nothing."""
    url = text(value)
    if url and not url.startswith(("postgresql://", "postgres://")):
        raise ValueError("a URL such as postgresql://user@host/stoker is needed, or nothing for SQLite in the home")
    return url
