//! Where a canary is planted in a tree, and which call must find it.

use std::collections::BTreeMap;

use cto_rules::checks::{CanaryPlan, Entry, EntryKind, NoPlan, Runner, TreeFacts, Wanted};
use proptest::prelude::*;

/// A tree: paths and texts.
type Tree<'a> = &'a [(&'a str, &'a str)];

/// Answers what the rules ask for from a tree in memory.
fn plan(command: &str, tree: Tree<'_>) -> Result<CanaryPlan, String> {
    let runner = Runner::recognise(command).ok_or("it is not recognised")?;
    let mut facts = TreeFacts::default();
    loop {
        match runner.canary("ab12", &facts) {
            Ok(plan) => return Ok(plan),
            Err(NoPlan::Because(why)) => return Err(why),
            Err(NoPlan::Needs(Wanted::Text(path))) => {
                let found = tree.iter().find(|(p, _)| *p == path);
                facts.learn_text(path, found.map(|(_, text)| (*text).to_owned()));
            }
            Err(NoPlan::Needs(Wanted::List(dir))) => {
                let mut names = BTreeMap::new();
                for (path, _) in tree {
                    let below = if dir.is_empty() {
                        Some(*path)
                    } else {
                        path.strip_prefix(&dir).and_then(|p| p.strip_prefix('/'))
                    };
                    if let Some(below) = below {
                        let (name, kind) = match below.split_once('/') {
                            Some((name, _)) => (name, EntryKind::Directory),
                            None if below.ends_with('@') => {
                                (below.trim_end_matches('@'), EntryKind::Other)
                            }
                            None => (below, EntryKind::File),
                        };
                        names.insert(name.to_owned(), kind);
                    }
                }
                let entries = names.into_iter().map(|(name, kind)| Entry { name, kind });
                facts.learn_list(dir, entries.collect());
            }
        }
    }
}

/// Where it goes and how it is called, or why not.
fn shown(command: &str, tree: Tree<'_>) -> String {
    match plan(command, tree) {
        Ok(plan) => {
            let quiet = " --verbosity=1 -rpfEsxX --color=no --maxfail=0 --capture=fd -o console_output_style=progress -o 'cache_dir=$TMPDIR/pytest-cache'";
            let tap = " --test-reporter=tap --test-reporter-destination=stdout";
            let command = plan.command.replace(quiet, " …").replace(tap, " …");
            let paths: Vec<&str> = plan.files.iter().map(|f| f.path.as_str()).collect();
            format!("{} | {command}", paths.join(" "))
        }
        Err(why) => format!("none: {why}"),
    }
}

#[test]
fn pytest_finds_it_whatever_the_project_has_set() {
    let at = "tests/test_final_round_clean.py";
    let tests: Tree<'_> = &[("tests/test_a.py", "")];
    assert_eq!(shown("pytest", &[]), "test_final_round_clean.py | pytest …");
    assert_eq!(shown("pytest -x", tests), format!("{at} | pytest -x …"));
    assert_eq!(
        shown("pytest tests/test_a.py::test_b", tests),
        format!("{at} | pytest tests/test_a.py::test_b … {at}")
    );
    assert_eq!(
        shown("pytest ./tests -k 'a and b'", tests),
        format!(
            "{at} | pytest ./tests -k 'a and b' … -k '(a and b) or test_section_latest_first_drops'"
        )
    );
    let ini = |text: &'static str| [("pytest.ini", text), ("checks/a.py", "")];
    assert_eq!(
        shown("pytest", &ini("[pytest]\ntestpaths = checks more/*\n")),
        "checks/test_final_round_clean.py | pytest …"
    );
    assert_eq!(
        shown(
            "pytest checks",
            &ini("[pytest]\npython_files = *_check.py\npython_functions = check\n")
        ),
        "checks/final_round_clean_check.py | pytest checks …"
    );
    assert_eq!(
        shown(
            "pytest -o addopts= checks",
            &ini("[pytest]\naddopts = -k nothing\n")
        ),
        "checks/test_final_round_clean.py | pytest -o addopts= checks …"
    );
}

#[test]
fn pytest_selects_it_by_mark_where_marks_select() {
    let toml = [(
        "pyproject.toml",
        "[tool.pytest.ini_options]\naddopts = \"--strict-markers -m 'fast and not net'\"\n",
    )];
    let content = |command: &str| plan(command, &toml).unwrap().files[0].content.clone();
    assert_eq!(
        content("pytest"),
        "import pytest\n\n\n@pytest.mark.fast\ndef test_section_latest_first_drops():\n    raise AssertionError(\"section latest first drops\")\n"
    );
    assert!(content("pytest -m 'slow or net'").contains("@pytest.mark.net\n"));
    assert!(!content("PYTEST_ADDOPTS='-m \"not net\"' pytest").contains("mark"));
    assert_eq!(
        shown("pytest -m 'a and not a'", &toml),
        "none: no mark is known that `-m a and not a` selects"
    );
}

#[test]
fn python_gets_none_where_the_call_is_not_understood() {
    for (command, why) in [
        (
            "pytest --collect-only",
            "with `--collect-only` not every test runs",
        ),
        ("pytest --sw", "with `--sw` not every test runs"),
        (
            "pytest --cov src",
            "it is not known whether `--cov` takes the next word",
        ),
        ("pytest nowhere", "`nowhere` is no directory of the tree"),
        (
            "python3 -m unittest discover -s nowhere",
            "`nowhere` is no directory of the tree",
        ),
        ("pytest -Q", "the option `-Q` is not known"),
        (
            "pytest ../other",
            "`../other` does not lie beneath the tree",
        ),
    ] {
        assert_eq!(shown(command, &[]), format!("none: {why}"), "{command}");
    }
}

const ONE: Tree<'_> = &[
    (
        "Cargo.toml",
        "[package]\nname = \"my-crate\"\nedition = \"2024\"\n",
    ),
    ("src/lib.rs", ""),
];
const MANY: Tree<'_> = &[
    (
        "Cargo.toml",
        "[workspace]\nmembers = [\"tool\", \"crates/*\"]\nexclude = [\"crates/out\"]\n",
    ),
    (
        "tool/Cargo.toml",
        "[package]\nname = \"tool\"\nedition = \"2021\"\n",
    ),
    ("tool/src/main.rs", ""),
    (
        "crates/a/Cargo.toml",
        "[package]\nname = \"a\"\nedition = \"2021\"\nautotests = false\n",
    ),
    ("crates/a/src/lib.rs", ""),
    (
        "crates/b/Cargo.toml",
        "[package]\nname = \"b\"\nedition = \"2021\"\n[lib]\nname = \"bee\"\n",
    ),
    (
        "crates/c/Cargo.toml",
        "[package]\nname = \"c\"\nedition = \"2021\"\n",
    ),
    ("crates/c/src/lib.rs", ""),
    (
        "crates/out/Cargo.toml",
        "[package]\nname = \"out\"\nedition = \"2021\"\n",
    ),
];

#[test]
fn cargo_runs_it_beside_all_that_the_call_chooses() {
    let at = "tests/final_round_clean.rs";
    assert_eq!(
        shown("cargo test", ONE),
        format!("{at} | cargo test --no-fail-fast 2>&1")
    );
    assert_eq!(
        shown("cargo test --lib one -- --exact", ONE),
        format!(
            "{at} | cargo test --lib one --no-fail-fast --test final_round_clean -- --exact section_latest_first_drops 2>&1"
        )
    );
    assert_eq!(
        shown("cargo test --manifest-path crates/b/Cargo.toml", MANY),
        format!(
            "crates/b/{at} | cargo test --manifest-path crates/b/Cargo.toml --no-fail-fast 2>&1"
        )
    );
    // Of the members that search their `tests`, those with a library.
    assert_eq!(
        shown("cargo test", MANY),
        format!("crates/b/{at} crates/c/{at} | cargo test --no-fail-fast 2>&1")
    );
    assert!(shown("cargo test --workspace --exclude b --exclude c", MANY).starts_with("tool/"));
    assert!(shown("cargo test -p tool", MANY).starts_with("tool/"));
    let content = |command: &str, tree| plan(command, tree).unwrap().files[0].content.clone();
    assert!(content("cargo test", ONE).contains("extern crate my_crate as _;\n"));
    assert!(content("cargo test", MANY).contains("extern crate bee as _;\n"));
    assert!(!content("cargo test -p tool", MANY).contains("extern"));
    assert!(content("cargo test -- --ignored", ONE).contains("#[ignore]\n"));
}

#[test]
fn cargo_gets_none_where_no_package_takes_it() {
    let none = "no chosen package finds a new file in its `tests` by itself";
    for (command, tree, why) in [
        ("cargo test -p a", MANY, none),
        ("cargo test -p out", MANY, none),
        (
            "cargo test",
            &[(
                "Cargo.toml",
                "[package]\nname = \"old\"\n[[test]]\nname = \"x\"\n",
            )],
            none,
        ),
        (
            "cargo test",
            &[
                (
                    "Cargo.toml",
                    "[package]\nname = \"a\"\nedition = \"2024\"\n",
                ),
                ("tests@", ""),
            ],
            none,
        ),
        (
            "cargo test",
            &[],
            "there is no Cargo.toml where cargo would look first",
        ),
        (
            "cargo test --doc",
            ONE,
            "only the examples in documents run",
        ),
        ("cargo test --no-run", ONE, "with `--no-run` no test runs"),
        (
            "cargo test -- --skip _",
            ONE,
            "`--skip` would skip it, whatever it is called",
        ),
        (
            "cargo test --new-option",
            ONE,
            "the option `--new-option` is not known",
        ),
        ("cargo -C sub test", ONE, "`-C` leads to another directory"),
    ] {
        assert_eq!(shown(command, tree), format!("none: {why}"), "{command}");
    }
}

#[test]
fn node_runs_it_in_the_process_of_each_test_file() {
    let tree: Tree<'_> = &[
        ("a.test.js", ""),
        ("lib/b.js", ""),
        ("lib/b_test.mjs", ""),
        ("node_modules/c/c.test.js", ""),
        ("quits.test.js", "process.exit(0)"),
        ("test/deep/it's.cjs", ""),
    ];
    let all = "again-applies-joined.test.mjs lib/column-again-letters.test.mjs test/deep/creates-points-digits.test.mjs";
    assert_eq!(
        shown("node --test", tree),
        format!("{all} | node --test … {all}")
    );
    let content = |command: &str| plan(command, tree).unwrap().files[0].content.clone();
    assert!(content("node --test").contains("await import('./' + \"a.test.js\")"));
    assert!(content("node --test test").contains("\"it's.cjs\""));
    assert!(content("node --test --test-only a.test.js").contains("only: true"));
    assert_eq!(
        shown("node --test --test-name-pattern=x lib/b.js", tree),
        "lib/again-applies-joined.test.mjs | node --test --test-name-pattern=x … '--test-name-pattern=section latest first drops' lib/again-applies-joined.test.mjs"
    );
    // What a pattern stands for is not known here, so it stands alone.
    let alone = "again-applies-joined.test.mjs";
    assert_eq!(
        shown("node --test 'x/*.js'", tree),
        format!("{alone} | node --test … {alone}")
    );
    assert_eq!(
        shown("node --test --test-shard=1/2", tree),
        "none: `--test-shard` may leave it out"
    );
    assert_eq!(
        shown("node --test --unknown x", tree),
        "none: it is not known whether `--unknown` takes the next word"
    );
}

const MODULE: Tree<'_> = &[
    ("go.mod", "module example.com/m // x\n"),
    ("gen.go", "//go:build ignore\n\npackage main\n"),
    ("lib.go", "// Package lib is here.\npackage lib\n"),
    ("_x/a_test.go", "package no\n"),
    ("nested/go.mod", "module other\n"),
    ("nested/a_test.go", "package no\n"),
    (
        "sub/deep/a.go",
        "/* package no\n*/\npackage deep // really\n",
    ),
    ("sub/deep/a_test.go", "package deep_test\n"),
    ("vendor/v/a_test.go", "package no\n"),
    ("z/only_test.go", "package z_test\n"),
];

#[test]
fn go_finds_it_in_a_covered_package_with_tests() {
    assert_eq!(
        shown("go test ./...", MODULE),
        "sub/deep/final_round_clean_test.go z/final_round_clean_test.go | go test -v ./..."
    );
    assert!(
        plan("go test ./...", MODULE).unwrap().files[0]
            .content
            .starts_with("package deep\n")
    );
    assert_eq!(
        shown("go test", MODULE),
        "final_round_clean_test.go | go test -v"
    );
    assert!(
        plan("go test", MODULE).unwrap().files[0]
            .content
            .starts_with("package lib\n")
    );
    assert_eq!(
        shown("go test -run=TestA example.com/m/sub/... -args x", MODULE),
        "sub/deep/final_round_clean_test.go | go test -v -run=TestA example.com/m/sub/... '-run=TestA|^TestSectionLatestFirstDrops$' -args x"
    );
    for (command, why) in [
        ("go test fmt", "`fmt` is no package of this tree"),
        (
            "go test ./empty",
            "no package was found that the call covers",
        ),
        ("go test ./a...b", "the pattern `./a...b` is not understood"),
        ("go test -list .", "with `-list` not every test runs"),
        ("go test -C sub ./...", "`-C` leads to another directory"),
    ] {
        assert_eq!(shown(command, MODULE), format!("none: {why}"), "{command}");
    }
}

#[test]
fn the_evidence_is_the_failure_of_that_very_test() {
    for (command, tree, line) in [
        (
            "python3 -m unittest",
            ONE,
            "FAIL: test_section_latest_first_drops (test_final_round_clean.FinalRoundCleanTest.test_section_latest_first_drops)",
        ),
        (
            "pytest",
            ONE,
            "FAILED test_final_round_clean.py::test_section_latest_first_drops - AssertionError: section latest first drops",
        ),
        (
            "cargo test",
            ONE,
            "test section_latest_first_drops ... FAILED",
        ),
        (
            "node --test",
            ONE,
            "    not ok 3 - section latest first drops",
        ),
        (
            "go test",
            MODULE,
            "--- FAIL: TestSectionLatestFirstDrops (0.00s)",
        ),
    ] {
        let plan = plan(command, tree).unwrap();
        assert!(plan.is_told(&format!("x\n{line}\ny\n")), "{command}");
        for other in [
            line.replace("section", "other").replace("Section", "Other"),
            line.replace("FAIL", "PASS").replace("not ok", "ok"),
        ] {
            assert!(!plan.is_told(&other), "{command}: {other}");
        }
        let content = plan.files[0].content.to_ascii_lowercase();
        assert!(content.contains("section latest first drops"), "{command}");
        let all =
            [&content, &plan.files[0].path, &plan.command].map(|t| t.replace("pytest-cache", ""));
        for word in ["canary", "cto", "ab12", "planted"] {
            assert!(all.iter().all(|t| !t.contains(word)), "{command}: {word}");
        }
    }
}

proptest! {
    /// Whatever the tree says, planning ends without a panic, and beneath the tree.
    #[test]
    fn planning_ends_beneath_the_tree(
        text in "(\\[[a-z.:]*\\]\n|[a-z_]* ?= ?(\\[?\"?[a-z*./ -]*\"?\\]?)\n|package [a-z]*\n|.{0,8}\n){0,8}",
        command in prop::sample::select(vec!["pytest", "pytest a/b", "cargo test", "cargo test -p a", "go test ./...", "node --test"]),
    ) {
        let names = ["pytest.ini", "pyproject.toml", "setup.cfg", "Cargo.toml", "a/Cargo.toml", "go.mod", "a/x.go"];
        let tree: Vec<(&str, &str)> = names.iter().map(|n| (*n, text.as_str())).collect();
        if let Ok(plan) = plan(command, &tree) {
            for file in plan.files {
                prop_assert!(file.path.split('/').all(|p| !p.is_empty() && p != ".." && p != "."));
            }
        }
    }
}
