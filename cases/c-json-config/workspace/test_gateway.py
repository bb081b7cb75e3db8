import json
import os
import unittest

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gateway.json"), encoding="utf-8") as _file:
    GATEWAY = json.load(_file)


class GatewayTest(unittest.TestCase):
    def test_it_is_version_4(self):
        self.assertEqual(GATEWAY["version"], 4)

    def test_services_wait_in_milliseconds(self):
        self.assertEqual([service.get("timeout_ms") for service in GATEWAY["services"]], [5000, 250, None])

    def test_the_default_is_in_milliseconds(self):
        self.assertEqual(GATEWAY["defaults"]["timeout_ms"], 30000)

    def test_services_keep_their_order(self):
        self.assertEqual([service["name"] for service in GATEWAY["services"]], ["billing", "search", "größen"])


if __name__ == "__main__":
    unittest.main()
