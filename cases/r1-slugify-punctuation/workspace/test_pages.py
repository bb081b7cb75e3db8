import unittest

from pages import page_path


class PagePathTest(unittest.TestCase):
    def test_path_of_a_plain_title(self):
        self.assertEqual(page_path("Hello World"), "/notes/hello-world/")

    def test_path_without_punctuation(self):
        self.assertEqual(page_path("...and then?"), "/notes/and-then/")

    def test_empty_slug_is_untitled(self):
        self.assertEqual(page_path("?!"), "/notes/untitled/")


if __name__ == "__main__":
    unittest.main()
