"""When the next backups run."""

from durations import parse_duration


def next_runs(start, every, count):
    """Returns `count` times in seconds, the first one interval after `start`."""
    step = parse_duration(every)
    if step == 0:
        raise ValueError("an interval must be longer than nothing")
    return [start + step * number for number in range(1, count + 1)]
