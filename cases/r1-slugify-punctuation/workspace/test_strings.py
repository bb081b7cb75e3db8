import unittest

from strings import slugify


class SlugifyTest(unittest.TestCase):
    def test_words_are_joined_by_hyphens(self):
        self.assertEqual(slugify("  Hello \t World"), "hello-world")

    def test_punctuation_separates_words(self):
        self.assertEqual(slugify("C++ & Rust: a tour"), "c-rust-a-tour")

    def test_apostrophes_vanish(self):
        self.assertEqual(slugify("What's New?"), "whats-new")

    def test_nothing_but_punctuation_is_empty(self):
        self.assertEqual(slugify("?!"), "")


if __name__ == "__main__":
    unittest.main()
