"""Checks orders against the schema that is in force."""

import json
import os

_SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schemas", "current", "order.json")


def missing_fields(order):
    """Returns the names of required fields that `order` lacks, sorted."""
    with open(_SCHEMA, encoding="utf-8") as file:
        required = json.load(file)["required"]
    return sorted(set(required) - set(order))
