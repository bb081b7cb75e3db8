import unittest

from checksum import crc32c


class Crc32cTest(unittest.TestCase):
    def test_nothing_is_zero(self):
        self.assertEqual(crc32c(b""), 0)

    def test_check_value_of_the_standard(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)

    def test_one_letter(self):
        self.assertEqual(crc32c(b"a"), 0xC1D04330)

    def test_zeros(self):
        self.assertEqual(crc32c(bytes(32)), 0x8A9136AA)


if __name__ == "__main__":
    unittest.main()
