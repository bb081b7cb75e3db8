"""Reads the settings of the label printer."""

import configparser
import os

_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "settings.ini")


def value(section, name):
    """Returns one setting as text, or None."""
    parser = configparser.ConfigParser()
    with open(_PATH, encoding="utf-8") as file:
        parser.read_file(file)
    return parser.get(section, name, fallback=None)
