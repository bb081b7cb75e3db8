"""Checks gateway.json as bytes and as values: no key twice, whole numbers, order kept."""

import json
import os
import sys

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe


def service(name, port, **more):
    return {"name": name, "upstream": "http://127.0.0.1:%d" % port, **more}


WANTED = {
    "version": 4,
    "services": [
        service("billing", 7001, timeout_ms=5000, retry={"attempts": 2, "timeout_ms": 1000}),
        service("search", 7002, timeout_ms=250),
        service("größen", 7003),
    ],
    "defaults": {"timeout_ms": 30000, "log": "info"},
}


def once(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a key is there twice in " + ", ".join(names))
    return dict(pairs)


def problem(data):
    if data is None:
        return "not a regular file"
    try:
        found = json.loads(data.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        return ascii(str(error))
    # As text: 5000 and 5000.0 are equal numbers, and order of keys counts.
    return None if json.dumps(found) == json.dumps(WANTED) else "the values are " + probe.shown(found)


probe.say("the values of gateway.json", problem(probe.content("gateway.json")))
text = json.dumps(WANTED, indent=2, ensure_ascii=False) + "\n"
probe.has_bytes("the form of gateway.json", "gateway.json", text.encode())
probe.finish()
