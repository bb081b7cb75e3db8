import unittest

from greeting import greet


class GreetingTest(unittest.TestCase):
    def test_austrian(self):
        self.assertEqual(greet("deutsch (Österreich)", "Jörg"), "Servus, Jörg!")

    def test_simple_japanese(self):
        self.assertEqual(greet("日本語 やさしい", "さくら"), "こんにちは、さくらさん。")

    def test_french_of_quebec(self):
        self.assertEqual(greet("français – Québec", "Zoé"), "Allô, Zoé\u00a0!")

    def test_spanish_of_mexico(self):
        self.assertEqual(greet("español 🌵 México", "Íñigo"), "¡Qué onda, Íñigo!")


if __name__ == "__main__":
    unittest.main()
