"""Text helpers for page addresses, as shipped in the package."""


def slugify(text):
    """Returns the address form of a title."""
    return text.lower().replace(" ", "-")
