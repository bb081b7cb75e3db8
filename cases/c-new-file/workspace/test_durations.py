import unittest

from durations import format_duration, parse_duration


class ParseTest(unittest.TestCase):
    def test_units_add_up(self):
        self.assertEqual(parse_duration("1d2h30m5s"), 95405)

    def test_units_may_be_left_out(self):
        self.assertEqual(parse_duration("90m"), 5400)

    def test_wrong_order_is_refused(self):
        with self.assertRaises(ValueError):
            parse_duration("5s1m")

    def test_empty_is_refused(self):
        with self.assertRaises(ValueError):
            parse_duration("")


class FormatTest(unittest.TestCase):
    def test_zero_parts_are_left_out(self):
        self.assertEqual(format_duration(3605), "1h5s")

    def test_nothing_is_zero_seconds(self):
        self.assertEqual(format_duration(0), "0s")


if __name__ == "__main__":
    unittest.main()
