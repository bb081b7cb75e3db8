"""Greets people in their own words."""

import json
import os

_TEXTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "texte")


def greet(variant, name):
    """Returns the greeting of one language variant for one person."""
    with open(os.path.join(_TEXTS, variant + ".json"), encoding="utf-8") as file:
        return json.load(file)["hello"].replace("{name}", name)
