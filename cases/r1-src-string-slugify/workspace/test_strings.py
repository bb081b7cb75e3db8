import unittest

import strings
from src import strings as packaged


class RootSlugifyTest(unittest.TestCase):
    def test_joins_words(self):
        self.assertEqual(strings.slugify("Hello World"), "hello-world")

    def test_collapses_whitespace(self):
        self.assertEqual(strings.slugify(" Hello \t World "), "hello-world")


class PackagedSlugifyTest(unittest.TestCase):
    def test_joins_words(self):
        self.assertEqual(packaged.slugify("Hello World"), "hello-world")

    def test_agrees_with_the_root_on_whitespace(self):
        self.assertEqual(packaged.slugify(" a  b "), strings.slugify(" a  b "))


if __name__ == "__main__":
    unittest.main()
