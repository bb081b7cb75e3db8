"""Checks strings.py and pages.py from outside, and the table in README.md against the same rule."""

import os
import random
import sys

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe

SPACES = " \t\n\u00a0"
SIGNS = ".,:;!?&+-_/()[]'\"\u2019\u2013\u2026"
LETTERS = "abcXYZ019\u00e9\u00c4\u0416\u4e2d"
TITLES = ["Hello World", "What's New?", "C++ & Rust: a tour", "...and then?"]


def wanted(text):
    words, word = [], ""
    for char in text.lower() + " ":
        if char.isalnum():
            word += char
        elif char in ("'", "\u2019"):
            continue
        elif word:
            words.append(word)
            word = ""
    return "-".join(words)


def titles():
    yield from TITLES
    yield from ["", "?!", "'", "don't 'quote' me", "a_b", "--a--b--", "\u00c4rger\u2019s \u2026"]
    for _ in range(300):
        yield "".join(random.choice(random.choice([SPACES, SIGNS, LETTERS, LETTERS])) for _ in range(random.randrange(20)))


def readme_problem(data):
    if data is None:
        return "not a regular file"
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        return "not UTF-8"
    if len(lines) != 13 or lines[:6] != BEFORE or lines[10:] != AFTER:
        return "more than the Slug column has changed"
    for title, line in zip(TITLES, lines[6:10]):
        cells = [cell.strip() for cell in line.split("|")]
        if cells != ["", title, wanted(title), ""]:
            return "wrong row " + probe.shown(line)
    return None


BEFORE = [
    "# Notes",
    "",
    "The page of a note lives at `/notes/<slug>/`. Some slugs:",
    "",
    "| Title | Slug |",
    "| --- | --- |",
]
AFTER = ["", "A note without a title is found by its number.", ""]

inputs = list(titles())
probe.answers("slugify on fixed and random titles", "strings", "slugify", [([t], wanted(t)) for t in inputs])
probe.answers(
    "page_path on fixed and random titles", "pages", "page_path",
    [([t], "/notes/" + (wanted(t) or "untitled") + "/") for t in inputs],
)
probe.say("the table in README.md", readme_problem(probe.content("README.md")))
probe.finish()
