"""One line of the forecast."""

from tempconv import describe


def line(day, celsius):
    """Returns the line for one day."""
    return "%s: %s" % (day, describe(celsius))
