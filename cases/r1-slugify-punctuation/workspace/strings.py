"""Text helpers for page addresses."""

import re


def slugify(text):
    """Returns the address form of a title."""
    return re.sub(r"\s+", "-", text.strip().lower())
