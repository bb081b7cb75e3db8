"""CRC-32C (Castagnoli), with its table in `crc_table.bin`."""

import os
import struct

_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "crc_table.bin")

with open(_PATH, "rb") as _file:
    _TABLE = struct.unpack("<256I", _file.read())


def crc32c(data):
    """Returns the checksum of `data` as an unsigned number."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def crc32c_of_hex(text):
    """Returns the checksum of the bytes written as hex, as eight hex digits."""
    return "%08x" % crc32c(bytes.fromhex(text))
