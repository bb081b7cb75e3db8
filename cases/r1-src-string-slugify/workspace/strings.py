"""Text helpers for page addresses."""


def slugify(text):
    """Returns the address form of a title."""
    return "-".join(text.lower().split())
