"""Checks the script by starting it as the release job does: by its path, with no interpreter named."""

import os
import random
import sys

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe

SCRIPT = "tools/next-version"


def wanted(version, part):
    major, minor, patch = version
    if part == "major":
        return "%d.0.0\n" % (major + 1)
    if part == "minor":
        return "%d.%d.0\n" % (major, minor + 1)
    return "%d.%d.%d\n" % (major, minor, patch + 1)


def problem(stdin, arguments, want):
    try:
        code, out, _ = probe.run([os.path.abspath(SCRIPT), *arguments], stdin)
    except OSError as error:
        return "cannot be started: " + (error.strerror or "?")
    if (code, out) == want:
        return None
    return "%s %s gave %s, not %s" % (probe.shown(stdin), arguments, probe.shown((code, out)), probe.shown(want))


probe.has_mode("tools/next-version is executable", SCRIPT, executable=True)
data = probe.content(SCRIPT) or b""
probe.say("its first line names /bin/sh", None if data.startswith(b"#!/bin/sh\n") else "it is " + probe.shown(data[:30]))
for part in ["major", "minor", "patch"]:
    found = None
    for _ in range(12):
        version = [random.randrange(10 ** random.randrange(1, 5)) for _ in range(3)]
        stdin = b"%d.%d.%d\n" % tuple(version)
        found = found or problem(stdin, [part], (0, wanted(version, part).encode()))
    probe.say("the next %s version of random ones" % part, found)
for arguments in [[], [""], ["huge"], ["Minor"]]:
    probe.say("wrong use %s is refused" % arguments, problem(b"1.4.9\n", arguments, (2, b"")))
probe.finish()
