"""Checks every one of the 5,000 records, and archive.py from outside, on this archive and on a random one."""

import os
import random
import sys
import tempfile

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe

VOID = {1234, 2500, 4999}
RECORDS = 5000


def path_of(number):
    return "records/" + str(number // 100).zfill(3) + "/" + str(number).zfill(5) + ".txt"


def records_problem():
    for number in range(RECORDS):
        want = "record " + str(number).zfill(5) + (" void" if number in VOID else "") + "\n"
        found = probe.content(path_of(number))
        if found != want.encode():
            return "%s holds %s" % (path_of(number), probe.shown(found))
    found = sum(len(names) for _, _, names in os.walk("records"))
    return None if found == RECORDS else "there are %d files" % found


def made_archive(root):
    """Writes a small archive with random void records; returns how many are in force."""
    active = 0
    for number in random.sample(range(RECORDS), 150):
        path = os.path.join(root, path_of(number))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        void = random.random() < 0.4
        active += not void
        with open(path, "w", encoding="utf-8") as file:
            file.write("record %05d%s\n" % (number, " void" if void else ""))
    return active


probe.say("three records are void, the other 4,997 as they were", records_problem())
numbers = [0, 99, 100, 1234, 4999] + [random.randrange(RECORDS) for _ in range(100)]
probe.answers("record_path of random numbers", "archive", "record_path", [([n], path_of(n)) for n in numbers])
with tempfile.TemporaryDirectory() as other:
    other = os.path.realpath(other)
    active = made_archive(other)
    probe.answers(
        "count_active here and in a random archive", "archive", "count_active",
        [([os.getcwd()], RECORDS - len(VOID)), ([other], active)], readable=[other],
    )
probe.finish()
