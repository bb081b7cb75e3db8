"""Checks that tempconv.py was renamed with its bytes kept, and forecast.py from outside."""

import hashlib
import os
import random
import sys

sys.dont_write_bytecode = True  # the oracle's own directory is not ours to write to
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # with -I it is not there by itself
import probe

DIGEST = "9b52efb0b8becb6847d39449603390f1a29308524247a98727687c2fcc066875"


def fahrenheit(celsius):
    tenths = celsius * 18 + 320
    whole, rest = divmod(abs(tenths), 10)
    return (whole + (rest >= 5)) * (-1 if tenths < 0 else 1)


def wanted(day, celsius):
    return day + ": " + str(celsius) + " \u00b0C / " + str(fahrenheit(celsius)) + " \u00b0F"


probe.is_absent("tempconv.py is gone", "tempconv.py")
probe.is_absent("no package took its name", "tempconv")
data = probe.content("temperature.py")
if data is None:
    probe.say("temperature.py has the bytes of tempconv.py", "it is %s" % (probe.kind("temperature.py") or "absent"))
else:
    same = hashlib.sha256(data).hexdigest() == DIGEST
    probe.say("temperature.py has the bytes of tempconv.py", None if same else "the content was changed")
probe.has_mode("temperature.py has the mode of tempconv.py", "temperature.py", executable=False)
probe.say("forecast.py does not name tempconv", "it does" if b"tempconv" in (probe.content("forecast.py") or b"tempconv") else None)
degrees = [-40, -21, -18, -1, 0, 20, 37, 100] + [random.randrange(-300, 2000) for _ in range(100)]
probe.answers("to_fahrenheit of temperature.py", "temperature", "to_fahrenheit", [([c], fahrenheit(c)) for c in degrees])
days = ["Mon", "Dienstag", "\u6c34", ""]
pairs = [(random.choice(days), c) for c in degrees]
probe.answers("line of forecast.py", "forecast", "line", [([d, c], wanted(d, c)) for d, c in pairs])
probe.finish()
