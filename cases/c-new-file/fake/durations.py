"""Durations as people write them: `1d2h30m5s`."""

import re

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_PATTERN = re.compile("".join("(?:([0-9]{1,6})%s)?" % unit for unit, _ in _UNITS))


def parse_duration(text):
    """Returns the number of seconds in `text`."""
    match = _PATTERN.fullmatch(text)
    if not text or match is None:
        raise ValueError("not a duration: %r" % text)
    return sum(int(count or 0) * size for count, (_, size) in zip(match.groups(), _UNITS))


def format_duration(seconds):
    """Returns the shortest text that parse_duration() turns back into `seconds`."""
    if seconds < 0:
        raise ValueError("a duration is not negative: %r" % seconds)
    parts = []
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append("%d%s" % (count, unit))
    return "".join(parts) or "0s"
