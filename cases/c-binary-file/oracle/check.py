"""Checks crc_table.bin byte for byte, and the checksums that come out of it."""

import os
import random
import struct
import sys

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe

POLYNOMIAL = 0x82F63B78


def shifted(value):
    for _ in range(8):
        value = (value >> 1) ^ (POLYNOMIAL if value & 1 else 0)
    return value


def wanted(data):
    """CRC-32C one bit at a time, without a table."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ shifted((crc ^ byte) & 0xFF)
    return "%08x" % (crc ^ 0xFFFFFFFF)


table = b"".join(struct.pack("<I", shifted(index)) for index in range(256))
probe.has_bytes("crc_table.bin is the table of CRC-32C", "crc_table.bin", table)
probe.has_mode("crc_table.bin is not executable", "crc_table.bin", executable=False)
inputs = [b"", b"123456789", bytes(range(256))]
inputs += [bytes(random.randrange(256) for _ in range(random.randrange(200))) for _ in range(100)]
probe.answers(
    "checksums of fixed and random bytes", "checksum", "crc32c_of_hex", [([data.hex()], wanted(data)) for data in inputs]
)
probe.finish()
