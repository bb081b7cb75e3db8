use proptest::prelude::*;

use super::*;

fn contract(allowed: &[&str]) -> TaskContract {
    let text = "schema: cto.contract/v1\ntask_id: t\ntitle: t\ninstruction: t\n";
    let mut contract = TaskContract::read("t", text.as_bytes()).unwrap();
    contract.allowed_paths = allowed.iter().map(|p| p.parse().unwrap()).collect();
    contract
}

fn is_residue(lane: Lane, allowed: &[&str], tracked: &[&str], path: &str) -> bool {
    let tracked = TrackedPaths::new(tracked.iter().map(|p| p.as_bytes()));
    let rules = ResidueRules::new(&contract(allowed), LeftBy::Agent(lane), tracked);
    rules.is_residue(path.as_bytes(), false)
}

/// Says of a path, in a tree with these files, whether it is thrown away although every path is allowed.
fn thrown_away(tracked: &[&str], path: &str) -> bool {
    is_residue(Lane::Fake, &["**"], tracked, path)
}

#[test]
fn what_known_tools_leave_is_thrown_away() {
    let tracked = [
        "Cargo.toml",
        "package.json",
        "app/build.gradle.kts",
        "src/a.py",
        "py/setup.py",
        "svc/go.mod",
    ];
    for path in [
        ".venv/lib/python3.12/site-packages/x.pth",
        "py/venv/bin/python",
        "py/build/lib/a.py",
        "py/env/bin/python",
        "py/coverage.xml",
        "py/coverage.json",
        "svc/c.out",
        "svc/coverage.out",
        "svc/svc.test",
        "app/buildSrc/build/x",
        ".pytest_cache/.gitignore",
        ".pytest_cache/v/cache/nodeids",
        "src/.pytest_cache/README.md",
        ".mypy_cache/3.12/unittest/__init__.data.json",
        ".mypy_cache/3.12/sitecustomize.meta.json",
        ".ruff_cache/0.8.1/123",
        "src/__pycache__/a.cpython-312.pyc",
        ".coverage",
        ".coverage.host.12.x",
        ".tox/py312/lib/python3.12/site-packages/x.pth",
        "x.egg-info/PKG-INFO",
        "target/debug/build/conftest.py",
        "app/build/classes/A.class",
        "node_modules/left-pad/index.js",
        "vendored/node_modules/.cache/babel/x.json",
        "coverage/lcov.info",
        "tsconfig.tsbuildinfo",
    ] {
        assert!(thrown_away(&tracked, path), "{path}");
    }
}

#[test]
fn what_a_tool_made_unasked_is_thrown_away_and_what_is_allowed_is_not() {
    let tracked = ["Cargo.toml", "web/package.json"];
    let by_checks = |path: &str, tracked: &[&str]| {
        let tracked = TrackedPaths::new(tracked.iter().map(|p| p.as_bytes()));
        let rules = ResidueRules::new(&contract(&["**"]), LeftBy::Checks, tracked);
        rules.is_residue(path.as_bytes(), false)
    };
    for path in [
        "Cargo.lock",
        "web/package-lock.json",
        "web/yarn.lock",
        "web/dist/assets/index.js",
    ] {
        let by_agent =
            |allowed: &[&str], tracked: &[&str]| is_residue(Lane::Command, allowed, tracked, path);
        assert!(by_agent(&["src/"], &tracked), "{path}");
        assert!(!by_agent(&["**"], &tracked), "{path}");
        assert!(!by_agent(&[path], &tracked), "{path}");
        assert!(by_checks(path, &tracked), "{path}");
        let with_it: Vec<&str> = tracked.into_iter().chain([path]).collect();
        assert!(!by_agent(&["src/"], &with_it), "{path}");
        assert!(!by_checks(path, &with_it), "{path}");
        assert!(!by_agent(&["src/"], &[]), "{path}: nothing to fix there");
    }
}

#[test]
fn what_only_looks_like_it_is_part_of_the_change() {
    for path in [
        // The name of a directory is a file, or the other way round.
        ".pytest_cache",
        ".coverage/x",
        "x.egg-info",
        "target",
        // No manifest beside it.
        "target/debug/x",
        "src/target/x",
        "build/x",
        "node_modules/left-pad/index.js",
        "coverage/lcov.info",
        // Only a part of a name, or another case.
        ".pytest_cache2/x",
        "my.pytest_cache/x",
        ".PYTEST_CACHE/x",
        ".coveragerc",
        "coverage/lib.js",
        "dist/index.js",
        "package-lock.json",
        "venv/bin/python",
        "src/venv.py",
        "build/lib/a.py",
        "x.test",
    ] {
        assert!(!thrown_away(&["app/Cargo.toml"], path), "{path}");
    }
}

#[test]
fn a_tracked_path_is_never_residue_nor_what_lies_beside_it_in_a_cache() {
    let tracked = [
        ".mypy_cache/x",
        "target/keep",
        "Cargo.toml",
        "node_modules/a/b",
        "package.json",
    ];
    for path in [
        ".mypy_cache/x",
        ".mypy_cache/new",
        ".mypy_cache",
        "target/keep",
        "target/debug/new",
        "node_modules/a/c",
    ] {
        assert!(!thrown_away(&tracked, path), "{path}");
        let by_ignore = ResidueRules::new(
            &contract(&[]),
            LeftBy::Checks,
            TrackedPaths::new(tracked.map(str::as_bytes)),
        );
        let is_new = ![".mypy_cache/x", ".mypy_cache", "target/keep"].contains(&path);
        assert_eq!(
            by_ignore.is_residue(path.as_bytes(), true),
            is_new,
            "{path}"
        );
    }
    assert!(thrown_away(&tracked, "sub/.mypy_cache/x"));
    assert!(thrown_away(&tracked, "node_modules/.cache/x"));
}

#[test]
fn a_file_that_is_loaded_by_its_name_does_not_hide_in_a_cache_of_data() {
    for name in [
        "conftest.py",
        "sitecustomize.py",
        "x.pth",
        "pytest.ini",
        "CLAUDE.md",
        "unittest.py",
    ] {
        for cache in [".pytest_cache", ".mypy_cache/3.12", "a/.hypothesis"] {
            let path = format!("{cache}/{name}");
            assert!(!thrown_away(&[], &path), "{path}");
        }
    }
}

#[test]
fn what_the_contract_names_is_never_thrown_away() {
    let path = ".hypothesis/examples/1";
    for (allowed, expected) in [
        ("**", true),
        ("*/**", true),
        ("src/", true),
        (".hypothesis/", false),
        (".hypothesis/**", false),
        ("**/.hypothesis/", false),
        (".hypothesis/examples/1", false),
        (".hypothesis/other", true),
    ] {
        assert_eq!(
            is_residue(Lane::Fake, &[allowed], &[], path),
            expected,
            "{allowed}"
        );
    }
    let settings = ".claude/settings.json";
    for (lane, allowed, expected) in [
        (Lane::Claude, "**", true),
        (Lane::Claude, settings, false),
        (Lane::Codex, "**", false),
    ] {
        assert_eq!(
            is_residue(lane, &[allowed], &[], settings),
            expected,
            "{lane} {allowed}"
        );
    }
}

#[test]
fn every_row_is_needed() {
    for (index, row) in TOOLS.iter().enumerate() {
        let mut path = row.name.replace('*', "x");
        if row.shape == Shape::Directory {
            path.push_str("/x");
        }
        assert!(row.place_in(path.as_bytes()).is_some(), "{path}");
        let others = TOOLS
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index);
        let same = |other: &Leftover| {
            other.place_in(path.as_bytes()).is_some()
                && (other.beside.is_empty() || other.beside == row.beside)
        };
        assert!(!others.map(|(_, o)| o).any(same), "{path} has two rows");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_and_without_a_manifest_checks_throw_away_no_more_than_an_agent(
        path in proptest::collection::vec(prop_oneof![Just(b'/'), Just(b'.'), Just(b'*'), any::<u8>()], 0..40),
        ignored in any::<bool>(),
    ) {
        let contract = contract(&["**"]);
        let rules = |left_by| ResidueRules::new(&contract, left_by, TrackedPaths::default());
        let by_checks = rules(LeftBy::Checks).is_residue(&path, ignored);
        let by_agent = rules(LeftBy::Agent(Lane::Claude)).is_residue(&path, ignored);
        prop_assert!(!by_checks || by_agent);
        prop_assert!(!ignored || by_checks);
    }
}

#[test]
fn the_state_of_a_lane_is_never_the_change_although_the_repository_keeps_some_of_it() {
    let tracked = [".case/run-log.jsonl", "src/a.py"];
    let thrown = |lane, allowed: &[&str], path| is_residue(lane, allowed, &tracked, path);
    assert!(thrown(Lane::Case, &["**"], ".case/run-log.jsonl"));
    assert!(thrown(
        Lane::Case,
        &["src/"],
        ".case/new/events/run-1.jsonl"
    ));
    assert!(!thrown(Lane::Case, &["**"], "src/a.py"));
    assert!(!thrown(Lane::Case, &["**"], ".cases/a"));
    // Who names it wants it, and to other lanes it is a directory like any other.
    assert!(!thrown(
        Lane::Case,
        &[".case/run-log.jsonl"],
        ".case/run-log.jsonl"
    ));
    assert!(!thrown(Lane::Codex, &["**"], ".case/run-log.jsonl"));
}
