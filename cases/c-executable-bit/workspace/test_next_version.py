import os
import subprocess
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools", "next-version")


def next_version(version, *arguments):
    """Starts the script itself, as the release job does: no interpreter named."""
    done = subprocess.run([SCRIPT, *arguments], input=version + "\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    return done.returncode, done.stdout


class NextVersionTest(unittest.TestCase):
    def test_patch(self):
        self.assertEqual(next_version("1.4.9", "patch"), (0, "1.4.10\n"))

    def test_minor_starts_patch_again(self):
        self.assertEqual(next_version("1.4.9", "minor"), (0, "1.5.0\n"))

    def test_major_starts_both_again(self):
        self.assertEqual(next_version("1.4.9", "major"), (0, "2.0.0\n"))

    def test_wrong_use_is_2(self):
        self.assertEqual(next_version("1.4.9", "huge"), (2, ""))


if __name__ == "__main__":
    unittest.main()
