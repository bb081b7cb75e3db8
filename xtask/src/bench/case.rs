//! The case that is run to measure a run: its one change makes its one test pass.

use std::path::Path;

pub(super) const FORBIDDEN: &str = "[push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]";

/// Writes a case of this id to `cases`; more files may be put in its `workspace`.
pub(super) fn write(cases: &Path, id: &str) -> anyhow::Result<()> {
    let dir = cases.join(id);
    let tree = dir.join("workspace");
    std::fs::create_dir_all(&tree)?;
    std::fs::write(tree.join("adder.py"), "def add(a, b):\n    return a - b\n")?;
    std::fs::write(
        tree.join("test_adder.py"),
        "import unittest\n\nfrom adder import add\n\n\nclass Adds(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(2, 2), 4)\n",
    )?;
    std::fs::write(
        dir.join("fake.patch"),
        "diff --git a/adder.py b/adder.py\n--- a/adder.py\n+++ b/adder.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n",
    )?;
    std::fs::write(
        dir.join("case.yaml"),
        format!(
            "schema: cto.case/v1\nid: {id}\ntitle: Add\ninstruction: Make add add\nallowed_paths: [adder.py]\nforbidden_actions: {FORBIDDEN}\nverification_commands: [{{run: python3 -m unittest -q, must_fail_before: true}}]\n"
        ),
    )?;
    Ok(())
}
