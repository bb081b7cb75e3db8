import importlib.util
import unittest

import forecast
import temperature


class TemperatureTest(unittest.TestCase):
    def test_describes_both_scales(self):
        self.assertEqual(temperature.describe(20), "20 °C / 68 °F")

    def test_rounds_away_from_zero(self):
        self.assertEqual(temperature.to_fahrenheit(-21), -6)

    def test_the_old_name_is_gone(self):
        self.assertIsNone(importlib.util.find_spec("tempconv"))


class ForecastTest(unittest.TestCase):
    def test_a_line_names_the_day(self):
        self.assertEqual(forecast.line("Mon", 0), "Mon: 0 °C / 32 °F")


if __name__ == "__main__":
    unittest.main()
