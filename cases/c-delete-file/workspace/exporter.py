"""Writes tables for the download page."""

import legacy_csv


def to_csv(rows):
    """Returns the table as text, one line for each row."""
    return "".join(legacy_csv.join_row(row) + "\n" for row in rows)
