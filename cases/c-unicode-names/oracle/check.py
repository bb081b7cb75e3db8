"""Checks the text files by their exact names and bytes, and greeting.py from outside."""

import os
import random
import sys

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe

TEXTS = {
    "deutsch (Österreich)": "Servus, {name}!",
    "español 🌵 México": "¡Qué onda, {name}!",
    "français – Québec": "Allô, {name}\u00a0!",
    "日本語 やさしい": "こんにちは、{name}さん。",
}
LETTERS = "abc XYZ éñöЖ中🌵'-"


def random_name():
    return "".join(random.choice(LETTERS) for _ in range(random.randrange(1, 12)))


# Names are bytes on disk: composed and decomposed letters look the same and are not.
names = sorted(os.fsencode(name) for name in os.listdir("texte"))
wanted = sorted((name + ".json").encode() for name in TEXTS)
strange = [name for name in names if name not in wanted]
probe.say("texte/ holds the four files and no other", None if names == wanted else "found " + probe.shown(strange or names))
for name, text in TEXTS.items():
    data = ('{\n  "hello": "%s"\n}\n' % text).encode()
    probe.has_bytes("the text of " + ascii(name), os.fsencode("texte/" + name + ".json"), data)
calls = [(name, random_name()) for name in TEXTS for _ in range(10)]
probe.answers("greetings of random people", "greeting", "greet", [([n, p], TEXTS[n].replace("{name}", p)) for n, p in calls])
probe.finish()
