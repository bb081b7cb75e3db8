"""Checks the link itself, the schemas behind it, and orders.py from outside."""

import os
import random
import sys

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe

V1 = b'{\n  "required": ["id", "items", "total"]\n}\n'
V2 = b'{\n  "required": ["currency", "id", "items", "total_minor"]\n}\n'
FIELDS = ["currency", "id", "items", "note", "total", "total_minor"]


def wanted(order):
    return [name for name in ["currency", "id", "items", "total_minor"] if name not in order]


found = probe.kind("schemas/current")
if found != "link":
    probe.say("schemas/current is a link to v2", "it is %s" % (found or "absent"))
else:
    target = os.readlink("schemas/current")
    probe.say("schemas/current is a link to v2", None if target == "v2" else "it points to " + probe.shown(target))
for name, data in [("v1", V1), ("v2", V2)]:
    probe.say("schemas/%s is a directory" % name, None if probe.kind("schemas/" + name) == "directory" else "it is not")
    probe.has_bytes("schemas/%s/order.json is as it was" % name, "schemas/%s/order.json" % name, data)
orders = [{name: random.randrange(9) for name in FIELDS if random.random() < 0.6} for _ in range(60)]
probe.answers("missing_fields of random orders", "orders", "missing_fields", [([o], wanted(o)) for o in [{}, *orders]])
probe.finish()
