import unittest

from settings import value


class SettingsTest(unittest.TestCase):
    def test_uploads_wait_longer(self):
        self.assertEqual(value("upload", "timeout"), "45")

    def test_uploads_are_tried_three_times(self):
        self.assertEqual(value("upload", "retries"), "3")

    def test_downloads_are_as_before(self):
        self.assertEqual((value("download", "timeout"), value("download", "retries")), ("30", "1"))


if __name__ == "__main__":
    unittest.main()
