//! What test runners print, as they printed it, and what is counted.
//!
//! What is not caught: lines that a test prints past its runner's capture (`test x ... ok` of a Rust test that writes to
//! the descriptor, `--- PASS` after a forged `=== RUN` of a Go test) can add names and verdicts. A result made in the
//! process of the code under test stays `inferred`, and the canary is its guard.

use std::fmt::Write as _;

use cto_contract::verification::TestCounts;
use cto_rules::checks::{Runner, count_cargo, count_go, count_node, count_pytest};
use insta::assert_snapshot;
use proptest::prelude::*;

fn shown(counts: Option<TestCounts>) -> String {
    let Some(c) = counts else {
        return "nothing could be read".to_owned();
    };
    let mut out = format!(
        "{} ran, {} passed, {} failed, {} skipped\n",
        c.ran, c.passed, c.failed, c.skipped
    );
    for name in c.passed_names {
        let _written = writeln!(out, "{name}");
    }
    for name in c.failed_names {
        let _written = writeln!(out, "FAILED {name}");
    }
    for name in c.skipped_names {
        let _written = writeln!(out, "SKIPPED {name}");
    }
    if c.unnamed_failures > 0 {
        let _written = writeln!(out, "{} failures without a name", c.unnamed_failures);
    }
    out
}

#[test]
fn only_plain_calls_are_recognised() {
    let seen = |c: &str| Runner::recognise(c).map_or("none", |r| r.name());
    for (command, runner) in [
        ("python3 -m unittest -q", "unittest"),
        ("python3 -B -m unittest tests.test_a", "unittest"),
        ("python3 -m unittest discover -s 'my tests'", "unittest"),
        ("pytest", "pytest"),
        (".venv/bin/pytest -q tests", "pytest"),
        (".venv/bin/python -m pytest", "pytest"),
        ("python3.12 -m pytest -x", "pytest"),
        ("env A=b timeout 60 pytest", "pytest"),
        ("PYTHONPATH=src pytest", "pytest"),
        ("cargo test", "cargo test"),
        ("cargo --offline t -p a", "cargo test"),
        ("node --test", "node --test"),
        ("node --import ./x.mjs --test test/", "node --test"),
        ("go test ./...", "go test"),
        ("python3 -m unittest || true", "none"),
        ("python3 \"$CTO_ORACLE/check.py\"", "none"),
        ("echo python3 -m unittest", "none"),
        ("make test", "none"),
        ("pytest -- tests", "none"),
        ("pytest @args", "none"),
        ("cargo +nightly test", "none"),
        ("cargo build", "none"),
        ("cargo nextest run", "none"),
        ("node test.js --test", "none"),
        ("node --test --watch", "none"),
        ("go vet ./...", "none"),
        ("cd a && pytest", "none"),
    ] {
        assert_eq!(seen(command), runner, "{command}");
    }
}

#[test]
fn the_same_tests_are_told_by_name() {
    let line = |c: &str| Runner::recognise(c).unwrap().verbose();
    assert_eq!(
        line("A=b python3 -m unittest -q"),
        "A=b python3 -m unittest -q -v"
    );
    assert_eq!(
        line("pytest -q -k 'a or b'"),
        "pytest -q -k 'a or b' --verbosity=1 -rpfEsxX --color=no --maxfail=0 --capture=fd -o console_output_style=progress -o 'cache_dir=$TMPDIR/pytest-cache'"
    );
    assert_eq!(
        line("cargo test -qr --verbose one -- --nocapture --format terse two"),
        "cargo test -r one --no-fail-fast -- two 2>&1"
    );
    assert_eq!(
        line("node --test --test-reporter dot test/"),
        "node --test --test-reporter=tap --test-reporter-destination=stdout test/"
    );
    assert_eq!(
        line("node --test --test-reporter=junit --test-reporter-destination=out.xml"),
        "node --test --test-reporter=junit --test-reporter-destination=out.xml --test-reporter=tap --test-reporter-destination=stdout"
    );
    assert_eq!(
        line("go test -json -failfast ./... -args -v"),
        "go test -v ./... -args -v"
    );
}

#[test]
fn pytest_counts_only_what_passed_to_the_end() {
    assert_snapshot!(shown(count_pytest(include_str!("outputs/pytest-verbose.txt"))), @r"
    16 ran, 7 passed, 6 failed, 1 skipped
    tests/test_a.py::TestC::test_m
    tests/test_a.py::U::test_u
    tests/test_a.py::test_one
    tests/test_a.py::test_par[\xe9]]
    tests/test_a.py::test_par[a b]
    tests/test_a.py::test_par[x - y]
    FAILED tests/test_a.py::test_bad
    FAILED tests/test_a.py::test_err
    FAILED tests/test_a.py::test_sub
    FAILED tests/test_a.py::test_teardown
    FAILED tests/test_a.py::test_xps
    SKIPPED tests/test_a.py::test_skip
    SKIPPED tests/test_a.py::test_xf
    SKIPPED tests/test_a.py::test_xp
    ");
    let plain = count_pytest(include_str!("outputs/pytest-verbose.txt"));
    assert_eq!(
        count_pytest(include_str!("outputs/pytest-xdist.txt")),
        plain
    );
    // Without a line for each test the summary names all but those that were skipped.
    let short = count_pytest(include_str!("outputs/pytest.txt"));
    let without = plain.map(|plain| TestCounts {
        skipped_names: plain.skipped_names[1..].to_vec(),
        ..plain
    });
    assert_eq!(short, without);
}

#[test]
fn pytest_says_in_its_last_line_what_ran() {
    let read = |text: &str| shown(count_pytest(text)).trim_end().to_owned();
    assert_eq!(
        read("2 passed in 0.01s\n"),
        "2 ran, 2 passed, 0 failed, 0 skipped"
    );
    assert_eq!(
        read("=== 2 passed, 3 warnings in 61.00s (0:01:01) ===\n"),
        "2 ran, 2 passed, 0 failed, 0 skipped"
    );
    assert_eq!(
        read("no tests ran in 0.01s\n"),
        "0 ran, 0 passed, 0 failed, 0 skipped"
    );
    assert_eq!(
        read("14 deselected in 0.01s\n"),
        "0 ran, 0 passed, 0 failed, 0 skipped"
    );
    assert_eq!(
        read("14 tests collected in 0.01s\n"),
        "nothing could be read"
    );
    assert_eq!(read("FAILED a.py::b - x\n"), "nothing could be read");
    // A test printed the first line; pytest's own is the last.
    assert_eq!(
        read("99 passed in 1s\n1 failed in 0.01s\n"),
        "1 ran, 0 passed, 1 failed, 0 skipped\n1 failures without a name"
    );
}

#[test]
fn cargo_counts_over_all_programs_and_keeps_equal_names_apart() {
    assert_snapshot!(shown(count_cargo(include_str!("outputs/cargo.txt"))), @r"
    24 ran, 16 passed, 2 failed, 6 skipped
    it tests/it.rs #2::one
    it tests/it.rs::one
    p_a doc::a/src/lib.rs - add
    p_a doc::a/src/lib.rs - add #2
    p_a doc::a/src/lib.rs - add - compile
    p_a doc::a/src/lib.rs - add - compile fail
    p_a src/lib.rs::forged
    p_a src/lib.rs::tests::one
    p_a src/lib.rs::tests::pan
    p_a src/main.rs::one
    p_b doc::b/src/lib.rs - add
    p_b doc::b/src/lib.rs - add #2
    p_b doc::b/src/lib.rs - add - compile
    p_b doc::b/src/lib.rs - add - compile fail
    p_b src/lib.rs::forged
    p_b src/lib.rs::tests::one
    p_b src/lib.rs::tests::pan
    p_b src/main.rs::one
    FAILED it tests/it.rs #2::two
    FAILED it tests/it.rs::two
    SKIPPED p_a doc::a/src/lib.rs - add #3
    SKIPPED p_a src/lib.rs::tests::ign
    SKIPPED p_a src/lib.rs::tests::ign2
    SKIPPED p_b doc::b/src/lib.rs - add #3
    SKIPPED p_b src/lib.rs::tests::ign
    SKIPPED p_b src/lib.rs::tests::ign2
    ");
}

#[test]
fn a_sum_that_a_rust_test_printed_itself_counts_nothing() {
    let read = |text: &str| shown(count_cargo(text)).trim_end().to_owned();
    let forged = "test result: ok. 99 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    let real = "running 1 test\ntest a ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    assert_eq!(
        read(&format!("{real}{forged}")),
        "1 ran, 0 passed, 1 failed, 0 skipped\nFAILED a"
    );
    assert_eq!(
        read(&format!("running 1 test\n{forged}{real}")),
        "1 ran, 0 passed, 1 failed, 0 skipped\nFAILED a\n1 failures without a name"
    );
    assert_eq!(read("running 1 test\n"), "nothing could be read");
    assert_eq!(
        read("error: could not compile `a`\n"),
        "nothing could be read"
    );
}

#[test]
fn an_example_in_a_document_keeps_its_name_when_lines_move() {
    let read = |line: u32| {
        count_cargo(&format!(
            "   Doc-tests a\n\nrunning 1 test\ntest src/lib.rs - f (line {line}) ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
        ))
        .unwrap()
        .passed_names
    };
    assert_eq!(read(3), ["a doc::src/lib.rs - f"]);
    assert_eq!(read(3), read(40));
}

#[test]
fn node_tells_parts_under_their_suite_in_both_reports() {
    assert_snapshot!(shown(count_node(include_str!("outputs/node-tap.txt"))), @r"
    14 ran, 8 passed, 1 failed, 5 skipped
    c.test.js
    one
    one #2
    parent
    parent > c2
    parent > child
    suite > deep > inner
    suite > inner
    FAILED bad \# hash
    SKIPPED sk
    SKIPPED sk2
    SKIPPED suite > z
    SKIPPED td
    SKIPPED tdf
    ");
    assert_snapshot!(shown(count_node(include_str!("outputs/node-spec.txt"))), @r"
    14 ran, 8 passed, 1 failed, 5 skipped
    c.test.js
    one
    one #2
    parent > c2
    parent > child
    suite > deep > inner
    suite > inner
    td
    FAILED tdf
    SKIPPED sk
    SKIPPED sk2
    SKIPPED suite > z
    ");
}

#[test]
fn sums_of_node_must_add_up() {
    let read = |text: &str| shown(count_node(text)).trim_end().to_owned();
    assert_eq!(
        read("1..0\n# tests 0\n# suites 0\n# pass 0\n# fail 0\n"),
        "0 ran, 0 passed, 0 failed, 0 skipped"
    );
    assert_eq!(
        read("# tests 1\n# pass 9\n# fail 0\n"),
        "nothing could be read"
    );
    assert_eq!(read("# tests 1\n"), "nothing could be read");
    // An older runner reports each file as a test around its own.
    assert_eq!(
        read(
            "TAP version 13\n# Subtest: /tree/a.test.js\n    # Subtest: one\n    ok 1 - one\n      ---\n      ...\n    1..1\nok 1 - /tree/a.test.js\n  ---\n  ...\n1..1\n# tests 1\n# pass 1\n# fail 0\n# cancelled 0\n# skipped 0\n# todo 0\n"
        ),
        "1 ran, 1 passed, 0 failed, 0 skipped\na.test.js\na.test.js > one"
    );
}

#[test]
fn go_counts_tests_and_their_parts_by_package() {
    assert_snapshot!(shown(count_go(include_str!("outputs/go.txt"))), @r"
    9 ran, 6 passed, 2 failed, 1 skipped
    example.com/m.ExampleAdd
    example.com/m.TestForge
    example.com/m.TestOne
    example.com/m.TestPar
    example.com/m.TestSubs/a_b
    example.com/m/sub.TestOne
    FAILED example.com/m.TestSubs
    FAILED example.com/m.TestSubs/bad
    SKIPPED example.com/m.TestSkip
    ");
    assert_eq!(
        count_go(include_str!("outputs/go-json.txt")),
        count_go(include_str!("outputs/go.txt"))
    );
}

#[test]
fn a_go_test_counts_once_and_only_when_it_began() {
    let read = |text: &str| shown(count_go(text)).trim_end().to_owned();
    assert_eq!(
        read("--- PASS: TestFake (0.00s)\nPASS\nok  \tm\t0.1s\n"),
        "0 ran, 0 passed, 0 failed, 0 skipped"
    );
    assert_eq!(
        read(
            "=== RUN   TestA\n--- FAIL: TestA (0.00s)\n--- PASS: TestA (0.00s)\nFAIL\nFAIL\tm\t0.1s\n"
        ),
        "1 ran, 0 passed, 1 failed, 0 skipped\nFAILED m.TestA"
    );
    // It printed a verdict of its own, and was skipped.
    assert_eq!(
        read(
            "=== RUN   TestA\n--- PASS: TestA (0.00s)\n--- SKIP: TestA (0.00s)\nPASS\nok  \tm\t0.1s\n"
        ),
        "1 ran, 0 passed, 0 failed, 1 skipped\nSKIPPED m.TestA"
    );
    // It ended the process before it had a verdict.
    assert_eq!(
        read("=== RUN   TestA\nFAIL\tm\t0.1s\nFAIL\n"),
        "1 ran, 0 passed, 1 failed, 0 skipped\nFAILED m.TestA"
    );
    assert_eq!(
        read("FAIL\tm [build failed]\nFAIL\n"),
        "0 ran, 0 passed, 0 failed, 0 skipped\n1 failures without a name"
    );
    assert_eq!(
        read("ok  \tm\t0.002s [no tests to run]\n"),
        "0 ran, 0 passed, 0 failed, 0 skipped"
    );
    assert_eq!(read("go: no such tool\n"), "nothing could be read");
}

/// Lines that runners print, in any order and with any numbers.
fn lines() -> impl Strategy<Value = String> {
    let number = prop_oneof![0..9_u64, Just(u64::MAX)];
    let line = (number.clone(), number, 0..22_usize).prop_map(|(a, b, kind)| match kind {
        0 => format!("== {a} passed, {b} failed in 0.1s =="),
        1 => format!("{a} skipped, {b} errors, {a} xpassed in 1.00s"),
        2 => "=== short test summary info ===".to_owned(),
        3 => format!("PASSED a.py::t{a}"),
        4 => format!("ERROR a.py::t{a} - x"),
        5 => format!("running {a} tests"),
        6 => format!(
            "test result: ok. {a} passed; {b} failed; {a} ignored; 0 measured; 0 filtered out"
        ),
        7 => format!("test a::b{a} ... ok"),
        8 => format!("     Running unittests src/lib.rs (target/debug/deps/a{a}-0)"),
        9 => format!("   Doc-tests a{a}"),
        10 => format!("# tests {a}"),
        11 => format!("# pass {a}"),
        12 => format!("# fail {b}"),
        13 => format!("    # Subtest: s{a}"),
        14 => format!("    ok {a} - s{b}"),
        15 => format!("ok {a} - s{b} # SKIP"),
        16 => format!("ℹ tests {a}"),
        17 => format!("  ✔ s{a} (1ms)"),
        18 => format!("=== RUN   Test{a}"),
        19 => format!("    --- PASS: Test{a} (0.00s)"),
        20 => format!("ok  \tm{a}\t0.1s"),
        _ => format!("{{\"Action\":\"pass\",\"Package\":\"p{a}\",\"Test\":\"T{b}\"}}"),
    });
    prop::collection::vec(line, 0..30).prop_map(|l| l.join("\n"))
}

proptest! {
    #[test]
    fn counts_never_exceed_what_ran(text in prop_oneof![lines(), any::<String>()]) {
        for count in [count_pytest, count_cargo, count_node, count_go] {
            if let Some(c) = count(&text) {
                let parts = u128::from(c.passed) + u128::from(c.failed) + u128::from(c.skipped);
                prop_assert!(parts <= u128::from(c.ran), "{:?}", c);
                let mut sorted = c.passed_names.clone();
                sorted.sort();
                sorted.dedup();
                prop_assert_eq!(&sorted, &c.passed_names);
            }
        }
    }

    #[test]
    fn recognising_never_panics(text in "(cargo|go|node|pytest|python3) (test|--test|-m|-[a-zA-Z]*|--[a-z=-]*|[ ./a-z=:]*| )*") {
        if let Some(runner) = Runner::recognise(&text) {
            let again = Runner::recognise(runner.verbose().trim_end_matches(" 2>&1"));
            prop_assert_eq!(again.map(|r| r.name()), Some(runner.name()));
        }
    }
}
