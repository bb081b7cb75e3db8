import os
import unittest

from archive import count_active, record_path

HERE = os.path.dirname(os.path.abspath(__file__))


def text_of(number):
    with open(os.path.join(HERE, record_path(number)), encoding="utf-8") as file:
        return file.read()


class ArchiveTest(unittest.TestCase):
    def test_a_directory_holds_a_hundred_records(self):
        self.assertEqual(record_path(1234), "records/012/01234.txt")

    def test_records_are_found(self):
        self.assertEqual(text_of(99), "record 00099\n")

    def test_void_records_say_so(self):
        self.assertEqual(text_of(2500), "record 02500 void\n")

    def test_void_records_do_not_count(self):
        self.assertEqual(count_active(HERE), 4997)


if __name__ == "__main__":
    unittest.main()
