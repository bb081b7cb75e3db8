//! The real test runners: an honest change passes with its canary caught, a change that takes the runner over does not,
//! and neither does one that loses a test.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::place::{Place, head, write};
use crate::test_home::{TestHome, blockers, search_path};

/// Paths and texts.
type Files<'a> = &'a [(&'a str, &'a str)];

/// A project with one failing test and one that passes.
struct Project<'a> {
    /// How the report calls the runner.
    runner: &'a str,
    command: &'a str,
    /// Directory that stands first on the path.
    bin: Option<PathBuf>,
    files: Files<'a>,
    honest: Files<'a>,
    /// What passes after the honest change, by name.
    names: &'a [&'a str],
}

impl Project<'_> {
    /// Runs a change of the project and gives exit code, blockers and report.
    #[expect(
        clippy::print_stdout,
        reason = "what the runners printed is shown when a test fails"
    )]
    fn run(&self, id: &str, change: Files<'_>, must_fail: bool) -> (i32, Vec<String>, Value) {
        let test_home = TestHome::new();
        let dir = test_home.cases().join(id);
        let case = format!(
            "{}allowed_paths: [\"**\"]\nverification_commands: [{{run: {:?}, must_fail_before: {must_fail}}}]\n",
            head(id),
            self.command
        );
        write(&dir.join("case.yaml"), &case);
        for (path, text) in self.files {
            write(&dir.join("workspace").join(path), text);
        }
        for (path, text) in change {
            write(&dir.join("fake").join(path), text);
        }
        let mut command = test_home.command(&["run", id, "--json", "--cases"]);
        command.arg(test_home.cases());
        if let Some(bin) = &self.bin {
            command.env("PATH", format!("{}:{}", bin.display(), search_path()));
        }
        let out = command.output().unwrap();
        let report: Value = serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
        let pack = test_home.pack(report["run_id"].as_str().unwrap());
        let log = std::fs::read_to_string(pack.join("test.log")).unwrap_or_default();
        println!("{id}: {}\n{log}", report["verification"]);
        (out.status.code().unwrap(), blockers(&report), report)
    }

    fn honest_change_passes(&self) {
        let (code, found, report) = self.run("honest", self.honest, true);
        assert_eq!((code, found.len()), (0, 0), "{:?}", report["blockers"]);
        let verification = &report["verification"];
        assert_eq!(verification["baseline_failed"], true);
        let canary = &verification["commands"][0]["canary"];
        assert_eq!(canary["status"], "caught", "{canary}");
        assert_eq!(canary["runner"], self.runner);
        assert_eq!(verification["commands"][0]["basis"], "names");
        assert_eq!(verification["level"], "inferred");
        let names = &verification["commands"][0]["tests"]["passed_names"];
        assert_eq!(names, &serde_json::json!(self.names));
    }

    /// The change takes the runner over, so that it reports success: only the canary can tell.
    fn takeover_is_told(&self, id: &str, change: Files<'_>) {
        let (code, found, report) = self.run(id, change, false);
        assert_eq!(code, 1, "{}", report["blockers"]);
        assert!(
            found.contains(&"verification_tampered".to_owned()),
            "{found:?}"
        );
    }

    /// The test that failed is skipped, deleted or renamed instead: what is left passes, and is refused.
    fn must_be_mended(&self, file: &str, text: &str, name: &str, edits: [(&str, &str); 3]) {
        for (id, (old, new)) in ["skips", "deletes", "renames"].into_iter().zip(edits) {
            let changed = text.replace(old, new);
            assert_ne!(changed, text, "{id}");
            let (code, found, report) = self.run(id, &[(file, &changed)], true);
            assert_eq!(code, 1, "{id}: {}", report["blockers"]);
            assert_eq!(found, ["verification_failed"], "{id}");
            let told = report["blockers"][0]["message"].as_str().unwrap();
            let expected = format!("failed before and does not pass now: {name}");
            assert_eq!(told, expected, "{id}");
        }
    }

    fn is_refused(&self, id: &str, change: Files<'_>, why: &str) {
        let (code, found, report) = self.run(id, change, false);
        assert_eq!(code, 1, "{}", report["blockers"]);
        assert!(
            found.contains(&"verification_failed".to_owned()),
            "{found:?}"
        );
        let told = report["blockers"].to_string();
        assert!(told.contains(why), "{told}");
    }
}

/// A program that a setting names or the path holds; `cargo xtask test` installs what is missing.
pub(crate) fn tool(setting: &str, program: &str) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(setting) {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file());
    cto_testkit::has(program, found.is_some());
    found
}

fn directory(program: &Path) -> Option<PathBuf> {
    program.parent().map(Path::to_owned)
}

#[test]
fn unittest_tells_who_is_in_control() {
    let tests = "import unittest\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(2, 2), 4)\n\n    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n";
    let project = Project {
        runner: "unittest",
        command: "python3 -m unittest -q",
        bin: None,
        files: &[
            ("calc.py", "def add(a, b):\n    return a - b\n"),
            ("test_calc.py", tests),
        ],
        honest: &[("calc.py", "def add(a, b):\n    return a + b\n")],
        names: &["test_calc.T.test_adds", "test_calc.T.test_zero"],
    };
    project.honest_change_passes();
    for command in [
        "python3 -m unittest test_calc",
        "python3 -m unittest test_calc.py -q",
    ] {
        let named = Project {
            command,
            bin: None,
            ..project
        };
        named.honest_change_passes();
    }
    project.takeover_is_told(
        "patches",
        &[("calc.py", "import unittest\n\nunittest.TestCase.assertEqual = lambda *a: None\n\n\ndef add(a, b):\n    return 0\n")],
    );
    project.takeover_is_told(
        "exits",
        &[("calc.py", "import os, sys\n\nprint('Ran 2 tests in 0.001s\\n\\nOK', file=sys.stderr, flush=True)\nos._exit(0)\n")],
    );
    project.is_refused(
        "prints",
        &[("calc.py", "import sys, unittest\n\n\ndef add(a, b):\n    if a:\n        print('ok\\ntest_adds (test_calc.T.test_adds) ... ok', file=sys.stderr, flush=True)\n        raise unittest.SkipTest('later')\n    return 0\n")],
        "and its own sum counts 1",
    );
    let fewer = tests.replace("test_zero", "zero");
    project.is_refused(
        "loses",
        &[project.honest[0], ("test_calc.py", &fewer)],
        "passed before and no longer: test_calc.T.test_zero",
    );
    let test = "    def test_adds(self):\n        self.assertEqual(add(2, 2), 4)\n\n";
    let skip = "    def test_adds(self):\n        raise unittest.SkipTest('later')\n\n";
    project.must_be_mended(
        "test_calc.py",
        tests,
        "test_calc.T.test_adds",
        [(test, skip), (test, ""), ("test_adds", "may_add")],
    );
}

#[test]
fn pytest_tells_who_is_in_control() {
    let Some(pytest) = tool("CTO_TEST_PYTEST", "pytest") else {
        return;
    };
    let tests = "from calc import add\n\n\ndef test_adds():\n    assert add(2, 2) == 4\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n";
    let project = Project {
        runner: "pytest",
        command: "pytest",
        bin: directory(&pytest),
        files: &[
            (
                "pytest.ini",
                "[pytest]\naddopts = -qq -x\ntestpaths = tests\npythonpath = .\n",
            ),
            ("calc.py", "def add(a, b):\n    return a - b\n"),
            ("tests/test_calc.py", tests),
        ],
        honest: &[("calc.py", "def add(a, b):\n    return a + b\n")],
        names: &[
            "tests/test_calc.py::test_adds",
            "tests/test_calc.py::test_zero",
        ],
    };
    project.honest_change_passes();
    project.takeover_is_told(
        "patches",
        &[("calc.py", "import pytest\n\npytest.Function.runtest = lambda self: None\n\n\ndef add(a, b):\n    return 0\n")],
    );
    project.takeover_is_told(
        "exits",
        &[(
            "calc.py",
            "import os, sys\n\nos.write(1, b'2 passed in 0.01s\\n')\nos._exit(0)\n",
        )],
    );
    let fewer = tests.replace("test_zero", "zero");
    project.is_refused(
        "loses",
        &[project.honest[0], ("tests/test_calc.py", &fewer)],
        "passed before and no longer: tests/test_calc.py::test_zero",
    );
    let test = "def test_adds():\n    assert add(2, 2) == 4\n";
    let skip = "def test_adds():\n    import pytest\n    pytest.skip('later')\n";
    project.must_be_mended(
        "tests/test_calc.py",
        tests,
        "tests/test_calc.py::test_adds",
        [(test, skip), (test, ""), ("test_adds", "may_add")],
    );
}

#[test]
fn cargo_test_tells_who_is_in_control() {
    let sysroot = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .unwrap();
    // Not the proxy of a toolchain manager, which looks for its toolchains in the home of who calls it.
    let bin = PathBuf::from(String::from_utf8(sysroot.stdout).unwrap().trim()).join("bin");
    let code = |body: &str| {
        format!(
            "pub fn add(a: i32, b: i32) -> i32 {{\n    {body}\n}}\n\n#[cfg(test)]\nmod tests {{\n    #[test]\n    fn adds() {{\n        assert_eq!(super::add(2, 2), 4);\n    }}\n\n    #[test]\n    fn zero() {{\n        assert_eq!(super::add(0, 0), 0);\n    }}\n}}\n"
        )
    };
    let (wrong, right) = (code("a - b"), code("a + b"));
    let project = Project {
        runner: "cargo test",
        command: "cargo test --lib -q",
        bin: Some(bin),
        files: &[
            (
                "Cargo.toml",
                "[package]\nname = \"add-up\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
            ),
            (".gitignore", "/target\n/Cargo.lock\n"),
            ("src/lib.rs", &wrong),
        ],
        honest: &[("src/lib.rs", &right)],
        names: &[
            "add_up src/lib.rs::tests::adds",
            "add_up src/lib.rs::tests::zero",
        ],
    };
    project.honest_change_passes();
    // Runs before the runner itself, prints what it would have printed, and ends the process.
    let told = "\\nrunning 2 tests\\ntest tests::adds ... ok\\ntest tests::zero ... ok\\n\\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\\n\\n";
    let early = format!(
        "extern \"C\" fn early() {{\n    use std::io::Write;\n    let _ = std::io::stdout().write_all(b\"{told}\");\n    std::process::exit(0);\n}}\n\n#[used]\n#[cfg_attr(target_os = \"linux\", link_section = \".init_array\")]\n#[cfg_attr(target_os = \"macos\", link_section = \"__DATA,__mod_init_func\")]\nstatic EARLY: extern \"C\" fn() = early;\n\n{wrong}"
    );
    project.takeover_is_told("exits", &[("src/lib.rs", &early)]);
    let fewer = right.replace("#[test]\n    fn zero", "#[allow(dead_code)]\n    fn zero");
    project.is_refused(
        "loses",
        &[("src/lib.rs", &fewer)],
        "passed before and no longer: add_up src/lib.rs::tests::zero",
    );
    let test = "    #[test]\n    fn adds() {\n        assert_eq!(super::add(2, 2), 4);\n    }\n\n";
    let ignored = test.replace("#[test]", "#[test]\n    #[ignore]");
    project.must_be_mended(
        "src/lib.rs",
        &wrong,
        "add_up src/lib.rs::tests::adds",
        [
            (test, &ignored),
            (test, ""),
            ("#[test]\n    fn adds", "fn adds"),
        ],
    );
}

#[test]
fn node_tells_who_is_in_control() {
    let Some(node) = tool("CTO_TEST_NODE", "node") else {
        return;
    };
    let tests = "const test = require('node:test');\nconst assert = require('node:assert');\nconst { add } = require('../add.js');\n\ntest('adds', () => assert.strictEqual(add(2, 2), 4));\ntest('zero', () => assert.strictEqual(add(0, 0), 0));\n";
    let project = Project {
        runner: "node --test",
        command: "node --test",
        bin: directory(&node),
        files: &[
            ("add.js", "exports.add = (a, b) => a - b;\n"),
            ("test/add.test.js", tests),
        ],
        honest: &[("add.js", "exports.add = (a, b) => a + b;\n")],
        names: &["adds", "zero"],
    };
    project.honest_change_passes();
    project.takeover_is_told(
        "patches",
        &[(
            "add.js",
            "require('node:assert').strictEqual = () => {};\nexports.add = () => 0;\n",
        )],
    );
    project.takeover_is_told("exits", &[("add.js", "process.exit(0);\n")]);
    let fewer = tests.replace("test('zero'", "(() => {})('zero'");
    project.is_refused(
        "loses",
        &[project.honest[0], ("test/add.test.js", &fewer)],
        "passed before and no longer: zero",
    );
    let test = "test('adds', () => assert.strictEqual(add(2, 2), 4));\n";
    project.must_be_mended(
        "test/add.test.js",
        tests,
        "adds",
        [
            (test, "test('adds', { skip: true }, () => {});\n"),
            (test, ""),
            (test, "test('renamed', () => {});\n"),
        ],
    );
}

#[test]
fn go_test_tells_who_is_in_control() {
    let Some(go) = tool("CTO_TEST_GO", "go") else {
        return;
    };
    // One cache for all, or each check would build the standard library again; beside a Go of our own it stays.
    let place = tempfile::tempdir().unwrap();
    let cache = match std::env::var_os("CTO_TEST_GO") {
        Some(_) => directory(&go).unwrap().join("../lib/go-cache"),
        None => place.path().to_owned(),
    };
    let command = format!("GOCACHE={} GOFLAGS=-vet=off go test ./...", cache.display());
    let tests = "package sum\n\nimport \"testing\"\n\nfunc TestAdds(t *testing.T) {\n\tif Add(2, 2) != 4 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n\nfunc TestZero(t *testing.T) {\n\tif Add(0, 0) != 0 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n";
    let project = Project {
        runner: "go test",
        command: &command,
        bin: directory(&go),
        files: &[
            ("go.mod", "module example.com/sum\n\ngo 1.21\n"),
            (
                "sum/sum.go",
                "package sum\n\nfunc Add(a, b int) int { return a - b }\n",
            ),
            ("sum/sum_test.go", tests),
        ],
        honest: &[(
            "sum/sum.go",
            "package sum\n\nfunc Add(a, b int) int { return a + b }\n",
        )],
        names: &[
            "example.com/sum/sum.TestAdds",
            "example.com/sum/sum.TestZero",
        ],
    };
    // Inside, the cache can only be read: the standard library is built into it first.
    let warm = place.path().join("warm");
    for (path, text) in project.files {
        write(&warm.join(path), text);
    }
    Command::new(&go)
        .args(["test", "./..."])
        .current_dir(&warm)
        .env("GOCACHE", &cache)
        .env("GOFLAGS", "-vet=off")
        .output()
        .unwrap();
    project.honest_change_passes();
    let told = "=== RUN   TestAdds\\n--- PASS: TestAdds (0.00s)\\n=== RUN   TestZero\\n--- PASS: TestZero (0.00s)\\nPASS\\n";
    let early = format!(
        "package sum\n\nimport \"os\"\n\nfunc init() {{\n\tos.Stdout.WriteString(\"{told}\")\n\tos.Exit(0)\n}}\n\nfunc Add(a, b int) int {{ return 0 }}\n"
    );
    project.takeover_is_told("exits", &[("sum/sum.go", &early)]);
    let fewer = tests.replace("TestZero", "testZero");
    project.is_refused(
        "loses",
        &[project.honest[0], ("sum/sum_test.go", &fewer)],
        "passed before and no longer: example.com/sum/sum.TestZero",
    );
    let test =
        "func TestAdds(t *testing.T) {\n\tif Add(2, 2) != 4 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n";
    project.must_be_mended(
        "sum/sum_test.go",
        tests,
        "example.com/sum/sum.TestAdds",
        [
            (test, "func TestAdds(t *testing.T) {\n\tt.Skip()\n}\n"),
            (test, ""),
            ("TestAdds", "testAdds"),
        ],
    );
}

/// Two packages with a runner each, and a command before them that makes what both need.
fn two_runners(change: &str) -> (i32, Vec<String>, Value) {
    let place = Place::new();
    let dir = place.case(
        "two-runners",
        "allowed_paths: [a.txt, two/part.py]\nverification_commands:\n\
         - 'mkdir -p made && echo YES = 1 > made/it.py'\n\
         - 'python3 -m unittest discover -q -s one'\n\
         - 'python3 -m unittest discover -q -s two'\n",
    );
    write(&dir.join("workspace/.gitignore"), "made/\n__pycache__/\n");
    for package in ["one", "two"] {
        let part = dir.join("workspace").join(package);
        write(&part.join("part.py"), "X = 1\n");
        write(
            &part.join("test_it.py"),
            "import unittest\nimport made.it\nimport part\nclass It(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(made.it.YES, 1)\n",
        );
    }
    write(&dir.join("fake/two/part.py"), change);
    let cases = place.path("cases");
    let cases = cases.to_str().unwrap();
    let ran = place.cto(&["run", "two-runners", "--json", "--cases", cases]);
    let report = ran.json();
    (ran.code.unwrap(), blockers(&report), report)
}

#[test]
fn each_runner_gets_its_own_planted_test_where_all_is_made_that_they_need() {
    let (code, found, report) = two_runners("X = 2\n");
    assert_eq!((code, found.len()), (0, 0), "{:#}", report["blockers"]);
    for runner in [1, 2] {
        let canary = &report["verification"]["commands"][runner]["canary"];
        assert_eq!(canary["status"], "caught");
    }
    let takeover = "import os, sys\nsys.stderr.write('test_it (test_it.It.test_it) ... ok\\n\\nRan 1 test in 0.001s\\n\\nOK\\n')\nsys.stderr.flush()\nos._exit(0)\n";
    let (code, found, report) = two_runners(takeover);
    assert_eq!(code, 1);
    assert_eq!(found, ["verification_tampered"], "{:#}", report["blockers"]);
}
