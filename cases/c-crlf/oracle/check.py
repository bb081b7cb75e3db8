"""Checks settings.ini byte for byte: two lines differ, and every line keeps its ending."""

import os
import sys

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe

LINES = [
    "; Settings of the label printer. Edited on Windows: lines end in CR LF.",
    "[general]",
    "name = Lager S\u00fcd",
    "timeout = 30",
    "",
    "[upload]",
    "url_path = /labels",
    "timeout = 45",
    "retries = 3",
    "",
    "[download]",
    "url_path = /queue",
    "timeout = 30",
    "retries = 1",  # and no line ending after it
]

probe.has_bytes("settings.ini, byte for byte", "settings.ini", "\r\n".join(LINES).encode())
probe.has_mode("settings.ini is not executable", "settings.ini", executable=False)
probe.answers("values as settings.py reads them", "settings", "value", [
    (["general", "timeout"], "30"),
    (["upload", "timeout"], "45"),
    (["upload", "retries"], "3"),
    (["download", "timeout"], "30"),
    (["download", "retries"], "1"),
    (["general", "retries"], None),
])
probe.finish()
