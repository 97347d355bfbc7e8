"""Event files of TensorBoard, without TensorBoard: scalars, one record for each window of steps.

Format: TensorFlow's TFRecord (length, masked CRC-32C of it, data, masked CRC-32C of them), whose data are `Event` messages of
tensorflow/core/util/event.proto with a `Summary` of simple values.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import Dict, List, Mapping

_VERSION = b"brain.Event:2"
_MASK = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78  # of CRC-32C, its bits reversed


class EventFile:
    """A file that is made when something is written to it."""

    def __init__(self, folder: str) -> None:
        """In this folder, below which TensorBoard takes every folder for a run."""
        self._folder = folder
        self._path = ""

    def write(self, step: int, at: float, values: Mapping[str, float]) -> None:
        """Add values by their names, at a step and a time (seconds since the epoch). Raises OSError."""
        if not values:
            return
        data = b"" if self._path else _record(_event(at, 0, _text(3, _VERSION)))
        data += _record(_event(at, step, _text(5, b"".join(_text(1, _value(*pair)) for pair in values.items()))))
        if not self._path:
            os.makedirs(self._folder, exist_ok=True)
            name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
            self._path = os.path.join(self._folder, name)
        with open(self._path, "ab") as file:
            file.write(data)


def _event(at: float, step: int, what: bytes) -> bytes:
    """`Event`: wall_time = 1, step = 2, file_version = 3, summary = 5."""
    return b"\x09" + struct.pack("<d", at) + b"\x10" + _varint(step) + what


def _value(tag: str, number: float) -> bytes:
    """`Summary.Value`: tag = 1, simple_value = 2."""
    try:
        packed = struct.pack("<f", number)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if number > 0 else float("-inf"))
    return _text(1, tag.encode(errors="replace")) + b"\x15" + packed


def _text(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    parts: List[int] = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked(length)) + data + struct.pack("<I", _masked(data))


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


_TABLE: Dict[int, int] = {}


def crc32c(data: bytes) -> int:
    """The CRC-32C of some bytes (RFC 3720, appendix B.4)."""
    if not _TABLE:
        for byte in range(256):
            crc = byte
            for _ in range(8):
                crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
            _TABLE[byte] = crc
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF
