"""Checks src/strings.py from outside, and the new tests by running them on wrong versions of it."""

import json
import os
import random
import re
import socket
import sys
import tempfile
import threading

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe

SPACES = " \t\n\r\u00a0\u2003"
LETTERS = "abcXYZ019-_.,!?'\u00e9\u00c4\u0416"
TESTS = "test_src_strings.py"
TESTS_MIN = 3

# The new tests must pass on the first two (right, written differently) and fail on the others. The oracle answers for
# each of them: what the tests are run on is the same text every time, so that only answers tell them apart.
RIGHT = [
    lambda text: "-".join(text.split()).lower(),
    lambda text: re.sub(r"\s+", "-", text.lower().strip()),
]
WRONG = {
    "each space a hyphen": lambda text: text.lower().replace(" ", "-"),
    "ends not trimmed": lambda text: re.sub(r"\s+", "-", text.lower()),
    "not lower-cased": lambda text: "-".join(text.split()),
    "spaces only": lambda text: re.sub(r" +", "-", text.lower().strip(" ")),
    "always empty": lambda text: "",
}
ASKS = """import json
import os


def slugify(text):
    if not isinstance(text, str):
        raise AttributeError("no text")
    os.write(%(fd)d, json.dumps(text).encode() + b"\\n")
    answer = b""
    while not answer.endswith(b"\\n"):
        answer += os.read(%(fd)d, 65536)
    return json.loads(answer)
"""
# In which order they come is thrown anew each time, and some come again: who counts runs learns nothing.
RIGHT_RUNS = 5
WRONG_RUNS = 7


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


def answer(channel, version):
    with channel.makefile("rwb", buffering=0) as lines:
        for line in lines:
            lines.write(json.dumps(version(json.loads(line))).encode() + b"\n")


def tests_pass(version, files):
    """Runs the new tests on one version of src/strings.py; returns (passed, number of tests)."""
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryDirectory() as directory, ours:
        with theirs:
            copied(directory, {**files, "src/strings.py": (ASKS % {"fd": theirs.fileno()}).encode()})
            threading.Thread(target=answer, args=(ours, version), daemon=True).start()
            argv = [sys.executable, "-B", "-m", "unittest", "-q", "test_src_strings"]
            code, _, err = probe.run(argv, cwd=directory, pass_fds=[theirs.fileno()])
    ran = re.search(rb"^Ran (\d+) tests? in", err, re.M)
    return code == 0, int(ran.group(1)) if ran else 0


def versions():
    """Every version at least once, each with its name and whether it is right, in random order."""
    right = [("right version %d" % number, version, True) for number, version in enumerate(RIGHT, 1)]
    wrong = [(name, version, False) for name, version in WRONG.items()]
    again = random.choices(right, k=RIGHT_RUNS - len(right)) + random.choices(wrong, k=WRONG_RUNS - len(wrong))
    return random.sample(right + wrong + again, RIGHT_RUNS + WRONG_RUNS)


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
for name, version, is_right in versions():
    passed, ran = tests_pass(version, files)
    if is_right:
        problem = None if passed and ran >= TESTS_MIN else "passed: %s, tests: %d of at least %d" % (passed, ran, TESTS_MIN)
        probe.say("the new tests pass on " + name, problem)
    else:
        problem = "they pass" if passed else None
        probe.say("the new tests fail on: " + name, problem)
    if problem:
        break
probe.finish()
