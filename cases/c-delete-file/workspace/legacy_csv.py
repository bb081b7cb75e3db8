"""The first version of our table format. Kept for the old importer, which is gone."""


def join_row(fields):
    """Joins the fields of one row. Commas inside a field are lost."""
    return ",".join(field.replace(",", " ") for field in fields)


def split_row(line):
    return line.rstrip("\n").split(",")
