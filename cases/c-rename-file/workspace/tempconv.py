"""Temperatures for people: whole degrees, half degrees rounded away from zero."""


def _rounded(numerator, denominator):
    sign = -1 if numerator < 0 else 1
    return sign * ((2 * abs(numerator) + denominator) // (2 * denominator))


def to_fahrenheit(celsius):
    """Returns whole degrees Fahrenheit for whole degrees Celsius."""
    return _rounded(celsius * 9 + 160, 5)


def describe(celsius):
    """Returns both scales, for example `20 °C / 68 °F`."""
    return "%d °C / %d °F" % (celsius, to_fahrenheit(celsius))
