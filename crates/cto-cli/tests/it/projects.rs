//! Whole projects in three languages, each from `cto init` to a patch that git applies, offline.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::{Ran, search_path, sh, write};
use crate::source::{GIT, Source};

/// Where the toolchain's own files are, for a home that is not the user's.
fn beside_home(variable: &str, below: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let usual = || Some(Path::new(&std::env::var_os("HOME")?).join(below));
    named.or_else(usual).filter(|path| path.is_dir())
}

fn is_installed(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", "command -v \"$0\"", program])
        .env("PATH", search_path())
        .output()
        .unwrap();
    cto_testkit::has(program, found.status.success())
}

/// Goes the whole way: init, the work by a script, the sealed patch, its application by the owner.
fn from_init_to_patch(source: &Source, work: &str, expected: &[&str], checked_by: &str) {
    let place = &source.place;
    place.cto(&["init", "repo"]).expect(0);
    place
        .cto(&["contract", "check", "repo/cto-task.yaml"])
        .expect(0);
    let mut command = place.command(&[
        "run",
        "--repo",
        "repo",
        "--contract",
        "repo/cto-task.yaml",
        "--engine",
        "command",
        "--stage",
        "3",
        "--json",
        "--",
        "sh",
        "-ec",
    ]);
    command
        .arg(format!("{GIT}{work}"))
        .env("CTO_HARNESS_ALLOW_COMMAND", "1")
        .env("CTO_HARNESS_COMMAND_STAGE", "3");
    let ran = Ran::of(command.output().unwrap());
    let log = || {
        let pack = source.pack(&ran.json());
        std::fs::read_to_string(pack.join("test.log")).unwrap()
    };
    assert_eq!(ran.code, Some(0), "{}{}\n{}", ran.out, ran.err, log());
    let report = ran.json();
    assert_eq!(report["changed_files"], serde_json::json!(expected));
    assert_eq!(
        report["verification"]["commands"][0]["canary"]["status"],
        "caught",
        "{}",
        log()
    );
    assert_eq!(
        report["verification"]["commands"][0]["canary"]["runner"],
        checked_by
    );
    place.cto(&["verify", "latest"]).expect(0);
    source.export("change.patch");
    source.sh(
        "git apply ../change.patch && git diff --quiet -- . && exit 1 || git commit -qam accepted && test \"$(git status --porcelain)\" = '?? cto-task.yaml'",
    );
}

#[test]
fn a_python_project_with_a_virtual_environment() {
    let source = Source::new(&[
        ("app/__init__.py", ""),
        (
            "app/prices.py",
            "from rounding import half_up\n\n\ndef total(prices):\n    return half_up(sum(prices) - 1)\n",
        ),
        ("tests/__init__.py", ""),
        (
            "tests/test_prices.py",
            "import unittest\n\nfrom app.prices import total\n\n\nclass Total(unittest.TestCase):\n    def test_nothing(self):\n        self.assertEqual(total([1]), 1)\n\n    def test_sum(self):\n        self.assertEqual(total([1, 2.5]), 4)\n",
        ),
        (
            "pyproject.toml",
            "[project]\nname = \"prices\"\nversion = \"1\"\n",
        ),
        (".gitignore", ".venv/\n__pycache__/\n"),
    ]);
    let repo = source.repo();
    sh(
        &repo,
        &format!(
            "PATH='{}'; python3 -m venv --without-pip .venv",
            search_path()
        ),
    );
    // A package that only the environment has.
    sh(
        &repo,
        "echo 'def half_up(x): return int(x + 0.5)' > \"$(echo .venv/lib/python3*/site-packages)/rounding.py\"",
    );
    from_init_to_patch(
        &source,
        ".venv/bin/python -c 'import rounding'\nsed -i 's/ - 1)/)/' app/prices.py\n.venv/bin/python -m unittest -q",
        &["app/prices.py"],
        "unittest",
    );
}

#[test]
fn a_node_project_with_its_modules() {
    if !is_installed("node") {
        return;
    }
    let source = Source::new(&[
        (
            "package.json",
            "{\"name\": \"greeting\", \"version\": \"1.0.0\", \"dependencies\": {\"shout\": \"1\"}, \"scripts\": {\"test\": \"node --test\"}}\n",
        ),
        (
            "lib/greet.js",
            "const shout = require('shout');\nexports.greet = (name) => shout('hello ');\n",
        ),
        (
            "test/greet.test.js",
            "const test = require('node:test');\nconst assert = require('node:assert');\nconst { greet } = require('../lib/greet.js');\ntest('shouts', () => { assert.match(greet('you'), /^HELLO/); });\ntest('names', () => { assert.match(greet('you'), /YOU/); });\n",
        ),
        (".gitignore", "node_modules/\n"),
    ]);
    write(
        &source.repo().join("node_modules/shout/package.json"),
        "{\"name\": \"shout\", \"version\": \"1.0.0\", \"main\": \"index.js\"}\n",
    );
    write(
        &source.repo().join("node_modules/shout/index.js"),
        "module.exports = (text) => text.toUpperCase();\n",
    );
    from_init_to_patch(
        &source,
        "sed -i \"s/'hello '/'hello ' + name/\" lib/greet.js\nnode --test >/dev/null",
        &["lib/greet.js"],
        "node --test",
    );
}

#[test]
fn a_rust_project_with_vendored_sources() {
    if !is_installed("cargo") {
        return;
    }
    let source = Source::new(&[
        (
            "Cargo.toml",
            "[package]\nname = \"doubling\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\ntwice = \"1\"\n",
        ),
        (
            ".cargo/config.toml",
            "[source.crates-io]\nreplace-with = \"vendored-sources\"\n\n[source.vendored-sources]\ndirectory = \"vendor\"\n",
        ),
        (
            "vendor/twice/Cargo.toml",
            "[package]\nname = \"twice\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
        ),
        (
            "vendor/twice/src/lib.rs",
            "pub fn twice(n: i64) -> i64 { n * 2 }\n",
        ),
        (
            "vendor/twice/.cargo-checksum.json",
            "{\"files\":{},\"package\":null}\n",
        ),
        (
            "src/lib.rs",
            "pub fn four_times(n: i64) -> i64 {\n    twice::twice(n)\n}\n",
        ),
        (
            "tests/four_times.rs",
            "#[test]\nfn of_nothing() {\n    assert_eq!(doubling::four_times(0), 0);\n}\n\n#[test]\nfn of_three() {\n    assert_eq!(doubling::four_times(3), 12);\n}\n",
        ),
        (".gitignore", "/target\n"),
    ]);
    sh(&source.repo(), "cargo generate-lockfile --offline --quiet");
    source.sh("git add -A && git commit -qm lock");
    // Rustup's `cargo` finds its toolchains below home, and this home is new.
    if let Some(rustup) = beside_home("RUSTUP_HOME", ".rustup") {
        std::os::unix::fs::symlink(rustup, source.place.path(".rustup")).unwrap();
    }
    from_init_to_patch(
        &source,
        "sed -i 's/twice::twice(n)/twice::twice(twice::twice(n))/' src/lib.rs",
        &["src/lib.rs"],
        "cargo test",
    );
}
