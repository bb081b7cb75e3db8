"""Checks durations.py from outside: what it reads, what it refuses, what it writes."""

import os
import random
import sys

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe

SIZES = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def wanted(text):
    """Seconds, or ValueError; one character at a time, so that no pattern is shared with the solution."""
    rest, total, parts = "dhms", 0, 0
    digits = ""
    for char in text:
        if char in "0123456789":
            digits += char
        elif char in SIZES and char in rest and 1 <= len(digits) <= 6:
            total += int(digits) * SIZES[char]
            rest = rest[rest.index(char) + 1:]
            digits, parts = "", parts + 1
        else:
            return ValueError
    return total if parts and not digits else ValueError


def written(seconds):
    if seconds < 0:
        return ValueError
    text = ""
    for unit, size in SIZES.items():
        if seconds >= size:
            text += str(seconds // size) + unit
            seconds %= size
    return text or "0s"


def texts():
    yield from [
        "", "0s", "1h", "90m", "1d2h30m5s", "5s1m", "1m1m", "1h\n", "\n1h", " 1h", "1h ", "1 h", "h", "12", "1H",
        "-1h", "+1h", "1.5h", "1w", "999999d", "1000000d", "000001s", "\u0661h", "1h30", "1h,30m", "1\u00b2s",
    ]
    for _ in range(150):
        units = [unit for unit in "dhms" if random.random() < 0.6]
        yield "".join("%d%s" % (random.randrange(10 ** random.randrange(1, 7)), unit) for unit in units)
    for _ in range(150):
        yield "".join(random.choice("0123456789dhms") for _ in range(random.randrange(8)))


counts = [-1, 0, 1, 59, 60, 61, 3599, 3600, 3605, 86399, 86400, 95405] + [
    random.randrange(10 ** random.randrange(1, 10)) for _ in range(200)
]
probe.say("durations.py is a regular file", None if probe.kind("durations.py") == "file" else "it is not")
probe.answers("parse_duration on fixed and random texts", "durations", "parse_duration", [([t], wanted(t)) for t in texts()])
probe.answers("format_duration on fixed and random counts", "durations", "format_duration", [([n], written(n)) for n in counts])
probe.answers("next_runs of schedule.py", "schedule", "next_runs", [([7, "1h1s", 2], [3608, 7209]), ([0, "0m", 1], ValueError)])
probe.finish()
