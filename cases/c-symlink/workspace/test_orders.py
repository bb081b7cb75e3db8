import os
import unittest

from orders import missing_fields

CURRENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schemas", "current")


class OrdersTest(unittest.TestCase):
    def test_a_complete_order_lacks_nothing(self):
        order = {"id": 1, "items": [], "currency": "EUR", "total_minor": 0}
        self.assertEqual(missing_fields(order), [])

    def test_the_currency_is_required(self):
        self.assertEqual(missing_fields({"id": 1, "items": [], "total_minor": 0}), ["currency"])

    def test_current_is_a_link(self):
        self.assertTrue(os.path.islink(CURRENT))


if __name__ == "__main__":
    unittest.main()
