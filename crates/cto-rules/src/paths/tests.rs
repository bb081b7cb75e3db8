mod frozen;

use std::sync::LazyLock;

use cto_contract::event::ChangeKind;
use proptest::prelude::*;

use super::*;
use crate::patch::{MODE_EXECUTABLE, MODE_FILE};

fn patterns(list: &[&str]) -> Vec<PathPattern> {
    list.iter().map(|p| p.parse().unwrap()).collect()
}

fn contract(allowed: &[&str], forbidden: &[&str], frozen: &[&str]) -> TaskContract {
    static PLAIN: LazyLock<TaskContract> = LazyLock::new(|| {
        let text = "schema: cto.contract/v1\ntask_id: t\ntitle: t\ninstruction: t\n";
        TaskContract::read("t", text.as_bytes()).unwrap()
    });
    let mut contract = PLAIN.clone();
    contract.allowed_paths = patterns(allowed);
    contract.forbidden_paths = patterns(forbidden);
    contract.frozen_paths = patterns(frozen);
    contract
}

fn scope(allowed: &[&str], forbidden: &[&str], path: &str) -> String {
    let (scope, by) = PathPolicy::new(&contract(allowed, forbidden, &[])).scope(path.as_bytes());
    format!("{scope}: {by}")
}

fn is_match(pattern: &str, path: &str) -> bool {
    Glob::new(&pattern.parse().unwrap(), Broken::MatchesNothing).matches(path.as_bytes())
}

fn added(path: &[u8], mode: u32, target: Option<&str>) -> PatchEntry {
    PatchEntry {
        path: path.to_vec(),
        change: ChangeKind::Added,
        before_mode: None,
        after_mode: Some(mode),
        before_oid: None,
        after_oid: Some("1".repeat(40)),
        symlink_target: target.map(|t| t.as_bytes().to_vec()),
    }
}

fn link_scope(path: &str, target: &str) -> String {
    let policy = PathPolicy::new(&contract(&["**"], &["secrets/", "vendor/**"], &["tests/"]));
    let (scope, by) = policy.scope_of(&added(path.as_bytes(), MODE_SYMLINK, Some(target)));
    format!("{scope}: {by}")
}

#[test]
fn the_letter_of_the_pattern_language() {
    let yes = [
        ("a.py", "a.py"),
        ("src/", "src/a/b"),
        ("*", ".env"),
        ("*.py", "x.py"),
        ("s?c/*.rs", "sßc/a.rs"),
        ("[a-c]x", "bx"),
        ("[!a-c]x", "dx"),
        ("[^a]x", "éx"),
        ("[]a]", "]"),
        ("[a-]", "-"),
        ("[\\]]", "]"),
        ("**", "a/b/c"),
        ("**/x", "x"),
        ("**/x", "a/b/x"),
        ("a/**/b", "a/b"),
        ("a/**/b", "a/x/y/b"),
        ("a/**", "a/b/c"),
        ("a**z", "a/b/z"),
        ("src/*/", "src/a/b/c"),
        ("a\\*b", "a*b"),
        ("we\\[ird]", "we[ird]"),
        ("{a,b}", "{a,b}"),
        ("ü", "ü"),
        ("a\\/", "a/b"),
    ];
    let no = [
        ("a.py", "b/a.py"),
        ("a.py", "a.py/x"),
        ("a.py", "axpy"),
        ("src", "src/a"),
        ("src/", "src"),
        ("src/", "srcs/a"),
        ("*", "a/b"),
        ("?", "/"),
        ("a?b", "a/b"),
        ("[!a]", "/"),
        ("a[.-0]b", "a/b"),
        ("a/**", "a"),
        ("**/", "a"),
        ("src/*/", "src/a"),
        ("a*b", "a/b"),
        ("A", "a"),
        ("a\\*b", "axb"),
        ("{a,b}", "a"),
        ("ü", "u\u{308}"),
        ("[z-a]", "m"),
        ("?", ""),
    ];
    for (pattern, path) in yes {
        assert!(is_match(pattern, path), "{pattern} must match {path}");
    }
    for (pattern, path) in no {
        assert!(!is_match(pattern, path), "{pattern} must not match {path}");
    }
}

#[test]
fn forbidden_wins_over_allowed_and_the_pattern_is_named() {
    insta::assert_snapshot!(scope(&["src/"], &["src/gen/"], "src/a.rs"), @"allowed: src/");
    insta::assert_snapshot!(scope(&["src/"], &["src/gen/"], "src/gen/a.rs"), @"forbidden: src/gen/");
    insta::assert_snapshot!(scope(&["src/"], &[], "lib/a.rs"), @"not_allowed: rule: no allowed pattern matches");
    let (frozen, by) = PathPolicy::new(&contract(&["**"], &[], &["test_*.py"])).scope(b"test_a.py");
    assert_eq!((frozen, by.as_str()), (Scope::Frozen, "test_*.py"));
}

#[test]
fn a_path_that_is_not_utf8_matches_nothing() {
    let policy = PathPolicy::new(&contract(&["**"], &[], &[]));
    assert_eq!(policy.scope(b"a\xff").0, Scope::NotUtf8);
    assert_eq!(policy.scope(b".git/\xff").0, Scope::NotUtf8);
}

#[test]
fn gits_own_directory_is_never_allowable_in_any_spelling() {
    let policy = PathPolicy::new(&contract(&["**"], &[], &[]));
    let bad = [
        ".git",
        ".git/config",
        "a/.GIT/hooks/pre-commit",
        ".gIt ",
        ".git...",
        ".git. . ",
        "git~1",
        "GIT~1/x",
        ".git::$INDEX_ALLOCATION",
        ".git::$INDEX_ALLOCATION/config",
        ".g\u{200c}it",
        "\u{feff}.git",
        ".git\u{206f}/x",
        "a\\.git\\config",
        ".git\\x",
        "",
        "a//b",
        "/a",
        "a/",
        "./a",
        "a/../b",
        "..",
        "a\0b",
    ];
    for path in bad {
        assert_eq!(
            policy.scope(path.as_bytes()).0,
            Scope::NeverAllowable,
            "{path:?}"
        );
    }
    for path in [
        ".gitmodules",
        ".github/x",
        "git",
        ".git2",
        "git~2",
        "agit",
        "x.git",
        "...",
        ".gitt",
    ] {
        assert_eq!(policy.scope(path.as_bytes()).0, Scope::Allowed, "{path:?}");
    }
}

#[test]
fn a_link_must_stay_where_it_can_be_seen_to_stay() {
    insta::assert_snapshot!(link_scope("a", "b/c"), @"allowed: **");
    insta::assert_snapshot!(link_scope("x/y/a", "../../b"), @"allowed: **");
    insta::assert_snapshot!(link_scope("a", "/etc/passwd"), @"never_allowable: rule: the link's target is absolute");
    insta::assert_snapshot!(link_scope("a", "../b"), @"never_allowable: rule: the link leaves the repository");
    insta::assert_snapshot!(link_scope("x/a", "../../b"), @"never_allowable: rule: the link leaves the repository");
    insta::assert_snapshot!(link_scope("a", "b/../c"), @"never_allowable: rule: the link's target goes up after it went down");
    insta::assert_snapshot!(link_scope("a", ".git/config"), @"never_allowable: rule: the link leads into git's own directory");
    insta::assert_snapshot!(link_scope(".gitmodules", "x"), @"never_allowable: rule: git refuses `.gitmodules` as a link");
    for path in [
        ".gitattributes",
        "sub/.GitAttributes",
        ".gitignore",
        "gitign~1",
    ] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(link_scope(path, "x"), @"never_allowable: rule: `.gitattributes` and `.gitignore` are never links");
        }
    }
    insta::assert_snapshot!(link_scope("secrets", "x"), @"forbidden: secrets/");
    insta::assert_snapshot!(link_scope("vendor", "x"), @"runner_file: rule: test runner file `vendor/bin/`");
    insta::assert_snapshot!(link_scope("tests", "x"), @"frozen: tests/");
    let policy = PathPolicy::new(&contract(&["**"], &[], &[]));
    assert_eq!(
        policy.scope_of(&added(b"a", MODE_SYMLINK, None)).0,
        Scope::NeverAllowable
    );
    assert_eq!(
        policy.scope_of(&added(b"sub", MODE_GITLINK, None)).0,
        Scope::NeverAllowable
    );
    let gone = PatchEntry {
        before_mode: Some(MODE_GITLINK),
        after_mode: None,
        change: ChangeKind::Deleted,
        ..added(b"sub", MODE_FILE, None)
    };
    assert_eq!(policy.scope_of(&gone).0, Scope::NeverAllowable);
}

#[test]
fn a_change_is_refused_with_every_path_named() {
    let contract = contract(&["ok/"], &["ok/no"], &[]);
    let paths: [&[u8]; 5] = [b"ok/a", b"ok/no", b"out", b"b\xff", b"esc\x1b[31m"];
    let entries: Vec<PatchEntry> = paths
        .iter()
        .map(|p| added(p, MODE_EXECUTABLE, None))
        .collect();
    let checked = check_diff(&contract, &entries);
    assert_eq!(
        checked.changed_files,
        ["ok/a", "ok/no", "out", "\"b\\377\"", "esc\u{1b}[31m"]
    );
    assert!(!checked.allowed_writes_passed && !checked.forbidden_paths_passed);
    assert_eq!(checked.blockers.len(), 1);
    assert_eq!(checked.blockers[0].code, BlockerCode::DisallowedFileChange);
    insta::assert_snapshot!(checked.blockers[0].message, @r#"`ok/no` is forbidden (ok/no); `out` is not_allowed (rule: no allowed pattern matches); `"b\377"` is not_utf8 (rule: a path that is not UTF-8 matches nothing); `esc\u{1b}[31m` is not_allowed (rule: no allowed pattern matches)"#);
    let many: Vec<PatchEntry> = (0..30)
        .map(|n| added(format!("x{n}").as_bytes(), MODE_FILE, None))
        .collect();
    let checked = check_diff(&contract, &many);
    assert!(checked.blockers[0].message.ends_with("; and 10 more"));
    assert!(!checked.allowed_writes_passed && checked.forbidden_paths_passed);
}

#[test]
fn the_hint_of_a_refused_path_names_what_would_allow_it() {
    let contract = contract(&["ok/"], &["ok/no"], &["ok/still"]);
    let hint = |path: &[u8]| {
        let checked = check_diff(&contract, &[added(path, MODE_FILE, None)]);
        checked.blockers[0].hint.clone()
    };
    insta::assert_snapshot!(hint(b"out"), @"widen `allowed_paths` in the contract if the path was meant, else rerun");
    insta::assert_snapshot!(hint(b"ok/no"), @"take the path out of `forbidden_paths` in the contract if it was meant to change, else rerun");
    insta::assert_snapshot!(hint(b"ok/still"), @"take the path out of `frozen_paths` in the contract if it was meant to change, else rerun");
    insta::assert_snapshot!(hint(b"ok/conftest.py"), @"name this very path in `allowed_paths` if it was meant to change (a pattern does not do), else rerun");
    insta::assert_snapshot!(hint(b"ok/AGENTS.md"), @"name this very path in `allowed_paths` if it was meant to change (a pattern does not do), else rerun");
    insta::assert_snapshot!(hint(b"ok/.git/x"), @"no contract can allow this path: rerun without it");
    insta::assert_snapshot!(hint(b"ok/\xff"), @"no contract can allow this path: rerun without it");
}

#[test]
fn no_change_is_a_blocker_only_where_one_is_required() {
    let mut contract = contract(&["a"], &[], &[]);
    let codes = |c: &TaskContract| {
        check_diff(c, &[])
            .blockers
            .iter()
            .map(|b| b.code)
            .collect::<Vec<_>>()
    };
    assert_eq!(codes(&contract), [BlockerCode::NoDiff]);
    contract.diff_required = false;
    assert_eq!(codes(&contract), []);
    assert!(check_diff(&contract, &[]).allowed_writes_passed);
}

#[test]
fn no_pattern_explodes() {
    let path = format!("{}b", "a".repeat(4000));
    for pattern in [
        "*a".repeat(1000),
        "**a".repeat(1000),
        "[ab]*".repeat(700),
        "**/".repeat(1000) + "x",
        "?".repeat(4096),
        "[!é]".repeat(800),
    ] {
        let _hit = is_match(&pattern, &path);
    }
}

fn pattern_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("a"),
        Just("b"),
        Just("é"),
        Just("."),
        Just("/"),
        Just("/"),
        Just("*"),
        Just("**"),
        Just("?"),
        Just("[!a]"),
        Just("[a-b]"),
        Just("[.-é]"),
        Just("[^.a-b]"),
        Just("[]a]"),
        Just("[b-]"),
        Just("[\\]!é]"),
        Just("[z-a]"),
        Just("{a,b}"),
        Just("\\*"),
        Just("\\a"),
        Just("**/"),
    ];
    proptest::collection::vec(piece, 1..8).prop_map(|p| p.concat())
}

fn path_text() -> impl Strategy<Value = String> {
    let component = proptest::collection::vec(
        prop_oneof![
            Just("a"),
            Just("b"),
            Just("é"),
            Just("."),
            Just("*"),
            Just("]"),
            Just("-"),
            Just("{a,b}")
        ],
        1..4,
    );
    proptest::collection::vec(component.prop_map(|c| c.concat()), 1..5).prop_map(|c| c.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn the_automaton_agrees_with_backtracking(pattern in pattern_text(), path in path_text()) {
        let Ok(parsed) = pattern.parse::<PathPattern>() else { return Ok(()) };
        let got = Glob::new(&parsed, Broken::MatchesNothing).matches(path.as_bytes());
        prop_assert_eq!(got, reference::is_match(&pattern, &path), "{} against {}", pattern, path);
    }
}

proptest! {
    #[test]
    fn fewer_permissions_never_allow_more(
        allowed in proptest::collection::vec(pattern_text(), 0..4),
        more in pattern_text(),
        path in path_text(),
    ) {
        let valid: Vec<&str> = allowed.iter().map(String::as_str).filter(|p| p.parse::<PathPattern>().is_ok()).collect();
        let is_allowed = |a: &[&str], f: &[&str], z: &[&str]| {
            PathPolicy::new(&contract(a, f, z)).scope(path.as_bytes()).0 == Scope::Allowed
        };
        let whole = is_allowed(&valid, &[], &[]);
        for i in 0..valid.len() {
            let mut fewer = valid.clone();
            fewer.remove(i);
            prop_assert!(whole || !is_allowed(&fewer, &[], &[]));
        }
        if more.parse::<PathPattern>().is_ok() {
            prop_assert!(whole || !is_allowed(&valid, &[&more], &[]));
            prop_assert!(whole || !is_allowed(&valid, &[], &[&more]));
            prop_assert!(!is_match(&more, &path) || !is_allowed(&valid, &[], &[&more]));
        }
    }

    #[test]
    fn a_literal_matches_exactly_itself(pattern in path_text(), path in path_text()) {
        if !pattern.parse::<PathPattern>().is_ok_and(|p| p.is_literal()) {
            return Ok(());
        }
        prop_assert_eq!(is_match(&pattern, &path), pattern == path);
        prop_assert!(is_match(&pattern, &pattern));
    }

    #[test]
    fn nothing_panics(pattern in any::<String>(), path in proptest::collection::vec(any::<u8>(), 0..60), target in proptest::collection::vec(any::<u8>(), 0..30)) {
        let list: Vec<&str> = [pattern.as_str()].into_iter().filter(|p| p.parse::<PathPattern>().is_ok()).collect();
        let policy = PathPolicy::new(&contract(&list, &list, &[]));
        let entry = PatchEntry { symlink_target: Some(target), ..added(&path, MODE_SYMLINK, None) };
        let _scope = policy.scope_of(&entry);
    }
}
