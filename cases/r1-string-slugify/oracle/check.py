"""Checks slugify() of strings.py from outside, on fixed and on random titles."""

import os
import random
import sys

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe

SPACES = " \t\n\r\v\f\u00a0\u2003\u3000"
LETTERS = "abcXYZ019-_.,!?'\u00e9\u00c4\u0416\u4e2d"


def wanted(text):
    out, gap = [], False
    for char in text:
        if char.isspace():
            gap = True
            continue
        if gap and out:
            out.append("-")
        gap = False
        out.append(char)
    return "".join(out).lower()


def titles():
    yield from ["", " ", "\t\n", "Hello World", "Hello   big\t world", "  Hello ", "a\u00a0 b", "A - B", "--", "a_b  C"]
    for _ in range(300):
        yield "".join(random.choice(random.choice([SPACES, LETTERS])) for _ in range(random.randrange(24)))


probe.answers("slugify on fixed and random titles", "strings", "slugify", [([t], wanted(t)) for t in titles()])
probe.finish()
