import unittest

from schedule import next_runs


class NextRunsTest(unittest.TestCase):
    def test_one_run_each_interval(self):
        self.assertEqual(next_runs(100, "1m", 3), [160, 220, 280])

    def test_zero_interval_is_refused(self):
        with self.assertRaises(ValueError):
            next_runs(0, "0s", 1)


if __name__ == "__main__":
    unittest.main()
