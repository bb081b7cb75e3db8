import unittest

from strings import slugify


class SlugifyTest(unittest.TestCase):
    def test_lowers_and_joins_words(self):
        self.assertEqual(slugify("Hello World"), "hello-world")

    def test_collapses_runs_of_whitespace(self):
        self.assertEqual(slugify("Hello   big\t world"), "hello-big-world")

    def test_trims_both_ends(self):
        self.assertEqual(slugify("  Hello "), "hello")

    def test_blank_text_has_an_empty_slug(self):
        self.assertEqual(slugify(" \n "), "")


if __name__ == "__main__":
    unittest.main()
