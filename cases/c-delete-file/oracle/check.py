"""Checks that the legacy files are gone, that nothing took their place, and exporter.py from outside."""

import os
import random
import sys

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe

ALPHABET = 'ab1 ,;"\n\u00e9\'|'


def wanted(rows):
    lines = []
    for row in rows:
        fields = []
        for field in row:
            if "," in field or '"' in field or "\n" in field:
                field = '"' + '""'.join(field.split('"')) + '"'
            fields.append(field)
        lines.append(",".join(fields) + "\n")
    return "".join(lines)


def tables():
    yield from [[], [["a", "b"], ["c", ""]], [["Doe, Jane", "7"]], [['6" nails', "x"]], [["two\nlines", '"']], [["", ""]]]
    for _ in range(200):
        width = random.randrange(2, 5)
        yield [
            ["".join(random.choice(ALPHABET) for _ in range(random.randrange(7))) for _ in range(width)]
            for _ in range(random.randrange(5))
        ]


probe.is_absent("legacy_csv.py is gone", "legacy_csv.py")
probe.is_absent("no package took its name", "legacy_csv")
probe.is_absent("docs/legacy-format.md is gone", "docs/legacy-format.md")
probe.has_bytes(
    "docs/format.md is as it was", "docs/format.md",
    b"# Table format\n\nUTF-8, one line for each row, fields separated by commas.\n",
)
probe.say("exporter.py does not name legacy_csv", "it does" if b"legacy" in (probe.content("exporter.py") or b"legacy") else None)
probe.answers("to_csv on fixed and random tables", "exporter", "to_csv", [([rows], wanted(rows)) for rows in tables()])
probe.finish()
