"""Finds and counts the records of the archive."""

import os


def record_path(number):
    """Returns the path of a record, relative to the root of the archive."""
    return "records/%03d/%05d.txt" % (number // 1000, number)


def count_active(root):
    """Returns how many records below `root` are in force."""
    count = 0
    for _, _, names in os.walk(os.path.join(root, "records")):
        count += sum(name.endswith(".txt") for name in names)
    return count
