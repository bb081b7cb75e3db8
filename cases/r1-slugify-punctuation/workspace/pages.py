"""Where the page of a note is found."""

import re


def page_path(title):
    """Returns the path of the page of a note."""
    slug = re.sub(r"\s+", "-", title.strip().lower())
    return "/notes/" + slug + "/"
