import importlib.util
import os
import unittest

from exporter import to_csv

HERE = os.path.dirname(os.path.abspath(__file__))


class ExporterTest(unittest.TestCase):
    def test_plain_fields_are_joined(self):
        self.assertEqual(to_csv([["a", "b"], ["c", ""]]), "a,b\nc,\n")

    def test_a_comma_is_kept_in_quotes(self):
        self.assertEqual(to_csv([["Doe, Jane", "7"]]), '"Doe, Jane",7\n')

    def test_quotes_are_doubled(self):
        self.assertEqual(to_csv([['6" nails', "x"]]), '"6"" nails",x\n')

    def test_the_legacy_module_is_gone(self):
        self.assertIsNone(importlib.util.find_spec("legacy_csv"))

    def test_the_legacy_page_is_gone(self):
        self.assertFalse(os.path.exists(os.path.join(HERE, "docs", "legacy-format.md")))


if __name__ == "__main__":
    unittest.main()
