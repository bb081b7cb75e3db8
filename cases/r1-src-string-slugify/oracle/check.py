"""Checks src/strings.py from outside, and the new tests by running them on wrong versions of it."""

import os
import random
import re
import sys
import tempfile

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe

SPACES = " \t\n\r\u00a0\u2003"
LETTERS = "abcXYZ019-_.,!?'\u00e9\u00c4\u0416"
TESTS = "test_src_strings.py"
TESTS_MIN = 3

# The new tests must pass on the first two (right, written differently) and fail on the others.
RIGHT = [
    "def slugify(text):\n    return '-'.join(text.split()).lower()\n",
    "import re\ndef slugify(text):\n    return re.sub(r'\\s+', '-', text.lower().strip())\n",
]
WRONG = {
    "each space a hyphen": "def slugify(text):\n    return text.lower().replace(' ', '-')\n",
    "ends not trimmed": "import re\ndef slugify(text):\n    return re.sub(r'\\s+', '-', text.lower())\n",
    "not lower-cased": "def slugify(text):\n    return '-'.join(text.split())\n",
    "spaces only": "import re\ndef slugify(text):\n    return re.sub(r' +', '-', text.lower().strip(' '))\n",
    "always empty": "def slugify(text):\n    return ''\n",
}


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
    yield from ["", " ", "Hello World", " Hello \t World ", "a\u00a0 b", "A - B", "a_b  C"]
    for _ in range(300):
        yield "".join(random.choice(random.choice([SPACES, LETTERS])) for _ in range(random.randrange(24)))


def copied(directory, files):
    for path, data in files.items():
        target = os.path.join(directory, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)


def tests_pass(source, files):
    """Runs the new tests on one version of src/strings.py; returns (passed, number of tests)."""
    with tempfile.TemporaryDirectory() as directory:
        copied(directory, {**files, "src/strings.py": source.encode()})
        code, _, err = probe.run([sys.executable, "-B", "-m", "unittest", "-q", "test_src_strings"], cwd=directory)
    ran = re.search(rb"^Ran (\d+) tests? in", err, re.M)
    return code == 0, int(ran.group(1)) if ran else 0


files = {path: probe.content(path) for path in ["src/__init__.py", "src/strings.py"]}
if None in files.values():
    probe.say("src is a package of regular files", "one of %s is missing" % ", ".join(files))
    probe.finish()
with tempfile.TemporaryDirectory() as alone:
    copied(alone, files)
    alone = os.path.realpath(alone)
    probe.answers(
        "src/strings.py alone, on fixed and random titles", "src.strings", "slugify",
        [([t], wanted(t)) for t in titles()], root=alone,
    )

files["strings.py"], files[TESTS] = probe.content("strings.py"), probe.content(TESTS)
if files[TESTS] is None or files["strings.py"] is None:
    probe.say("the new tests are there", TESTS + " is not a regular file")
    probe.finish()
for number, source in enumerate(RIGHT, 1):
    passed, ran = tests_pass(source, files)
    problem = None if passed and ran >= TESTS_MIN else "passed: %s, tests: %d of at least %d" % (passed, ran, TESTS_MIN)
    probe.say("the new tests pass on right version %d" % number, problem)
for name, source in WRONG.items():
    passed, _ = tests_pass(source, files)
    probe.say("the new tests fail on: " + name, "they pass" if passed else None)
probe.finish()
