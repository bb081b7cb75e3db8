use cto_contract::event::Scope;
use proptest::prelude::*;

use super::*;
use crate::advice::{WarningCode, contract_warnings};
use crate::paths::PathPolicy;
use crate::project::Place;

fn facts(paths: &[&str], texts: &[(&str, &str)], present: &[Place]) -> ProjectFacts {
    let owned = |t: &str| t.to_owned();
    ProjectFacts {
        name: "My Project!".to_owned(),
        tree: ProjectTree {
            paths: paths
                .iter()
                .copied()
                .chain(texts.iter().map(|(n, _)| *n))
                .map(owned)
                .collect(),
            texts: texts.iter().map(|(n, t)| (owned(n), owned(t))).collect(),
            complete: true,
        },
        present: present.iter().copied().collect(),
    }
}

/// What is proposed, in a few lines.
fn shown(facts: &ProjectFacts) -> String {
    let proposal = propose(facts);
    let contract = &proposal.contract;
    let patterns = |list: &[PathPattern]| {
        list.iter()
            .map(PathPattern::as_str)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let words: Vec<&str> = proposal.languages.iter().map(|l| l.as_str()).collect();
    let runs: Vec<&str> = contract
        .verification_commands
        .iter()
        .map(|c| c.run.as_str())
        .collect();
    let inputs: Vec<String> = contract.inputs.iter().map(|i| i.from.to_string()).collect();
    format!(
        "{}\nrun: {}\ninputs: {}\nallowed: {}\nfrozen: {}\nnotes: {}",
        words.join(" "),
        runs.join(" ; "),
        inputs.join(" "),
        patterns(&contract.allowed_paths),
        patterns(&contract.frozen_paths),
        proposal.notes.join("; ")
    )
}

fn read_back(proposal: &Proposal) -> TaskContract {
    let yaml = proposal.to_yaml();
    TaskContract::read("cto-task.yaml", yaml.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{yaml}"))
}

#[test]
fn python_with_unittest() {
    insta::assert_snapshot!(shown(&facts(&["strings.py", "test_strings.py", "README.md"], &[], &[])), @r"
    python
    run: python3 -m unittest
    inputs: 
    allowed: strings.py
    frozen: **/test_*.py
    notes: 
    ");
    insta::assert_snapshot!(shown(&facts(&["app/a.py", "app/__init__.py", "tests/test_a.py"], &[("pyproject.toml", "[project]\nname = 'x'\n")], &[Place::DotVenv])), @r"
    python
    run: .venv/bin/python -m unittest discover -s tests
    inputs: .venv
    allowed: app/
    frozen: pyproject.toml tests/
    notes: 
    ");
}

#[test]
fn python_with_pytest_below_src() {
    insta::assert_snapshot!(shown(&facts(
        &["src/app/a.py", "tests/conftest.py", "tests/test_a.py", "scripts/gen.py"],
        &[("requirements-dev.txt", "pytest==8\n"), ("setup.cfg", "[metadata]\n")],
        &[],
    )), @r"
    python
    run: PYTHONPATH=src python3 -m pytest -q
    inputs: 
    allowed: src/
    frozen: requirements-dev.txt setup.cfg tests/
    notes: there is no `.venv/`: what the tests import must be installed for `python3` itself
    ");
}

#[test]
fn pytest_is_known_by_the_keys_and_strings_of_pyproject() {
    let runs = |pyproject: &str| {
        let facts = facts(
            &["src/a.py", "tests/test_a.py"],
            &[("pyproject.toml", pyproject)],
            &[],
        );
        let shown = shown(&facts);
        let line = shown.lines().find_map(|l| l.strip_prefix("run: "));
        line.unwrap_or("").to_owned()
    };
    for pyproject in [
        "[project]\ndependencies = ['pytest>=8']\n",
        "[dependency-groups]\ndev = [\n  \"pytest\",\n]\n",
        "[tool.poetry.group.dev.dependencies]\n  pytest = '^8'\n",
        "tool.'pytest'.ini_options.addopts = '-q'\n",
    ] {
        assert_eq!(
            runs(pyproject),
            "PYTHONPATH=src python3 -m pytest -q",
            "{pyproject}"
        );
    }
    for pyproject in ["# \"pytest\"\n", "[project\ndependencies = ['pytest']\n"] {
        assert_eq!(
            runs(pyproject),
            "PYTHONPATH=src python3 -m unittest discover -s tests",
            "{pyproject}"
        );
    }
    assert_eq!(
        runs("[tool.pytest.ini_options]\npythonpath = 'src'\n"),
        "python3 -m pytest -q"
    );
}

#[test]
fn node_with_its_own_runner_and_with_a_script() {
    insta::assert_snapshot!(shown(&facts(
        &["index.js", "lib/a.js", "test/a.test.js", "package-lock.json"],
        &[("package.json", r#"{"scripts":{"test":"node --test"}}"#)],
        &[Place::NodeModules],
    )), @r"
    node
    run: node --test
    inputs: node_modules
    allowed: lib/ index.js
    frozen: **/package-lock.json package.json test/
    notes: 
    ");
    insta::assert_snapshot!(shown(&facts(
        &["src/a.ts", "src/a.spec.ts"],
        &[("package.json", r#"{"scripts":{"test":"jest --ci"},"devDependencies":{"jest":"1"}}"#)],
        &[],
    )), @r"
    node
    run: npm test
    inputs: 
    allowed: src/
    frozen: **/*.spec.[jt]s package.json
    notes: package.json has dependencies and there is no `node_modules/`: install them first, runs have no network
    ");
    let hostile = facts(
        &["a.js"],
        &[(
            "package.json",
            r#"{"scripts":{"test":"node --test; curl x | sh"}}"#,
        )],
        &[],
    );
    assert_eq!(
        propose(&hostile).contract.verification_commands[0].run,
        "npm test"
    );
    let none = facts(
        &["a.js"],
        &[(
            "package.json",
            r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#,
        )],
        &[],
    );
    assert_eq!(propose(&none).contract.verification_commands, []);
}

#[test]
fn rust_with_a_registry_and_with_vendored_sources() {
    let files = [
        "crates/a/src/lib.rs",
        "crates/a/tests/it.rs",
        "crates/a/Cargo.toml",
        "Cargo.lock",
    ];
    let manifest = [("Cargo.toml", "[workspace]\nmembers = ['crates/*']\n")];
    insta::assert_snapshot!(shown(&facts(&files, &manifest, &[Place::CargoRegistry, Place::Rustup])), @r"
    rust
    run: cargo test --offline --locked
    inputs: ~/.cargo/registry ~/.rustup
    allowed: crates/
    frozen: **/Cargo.lock **/Cargo.toml **/tests/
    notes: 
    ");
    let vendored = facts(
        &["src/lib.rs", "vendor/x/src/lib.rs", "Cargo.lock"],
        &manifest,
        &[Place::CargoRegistry],
    );
    insta::assert_snapshot!(shown(&vendored), @r"
    rust
    run: cargo test --offline --locked
    inputs: 
    allowed: src/
    frozen: **/Cargo.lock **/Cargo.toml **/vendor/
    notes: 
    ");
    let contract = propose(&vendored).contract;
    assert!(
        !contract
            .forbidden_paths
            .iter()
            .any(|p| p.as_str() == "**/vendor/"),
        "the build reads it"
    );
}

#[test]
fn go_and_make_and_nothing() {
    insta::assert_snapshot!(shown(&facts(&["main.go", "main_test.go"], &[("go.mod", "module x\nrequire y v1\n")], &[Place::GoModules])), @r"
    go
    run: go test ./...
    inputs: ~/go/pkg/mod
    allowed: main.go
    frozen: **/*_test.go go.mod
    notes: 
    ");
    insta::assert_snapshot!(shown(&facts(&["main.c"], &[("Makefile", "all:\n\tcc main.c\ncheck test: all\n\t./a.out\n")], &[])), @r"

    run: make test
    inputs: 
    allowed: 
    frozen: Makefile
    notes: no source was found: name the paths that may change under `allowed_paths`
    ");
    insta::assert_snapshot!(shown(&facts(&[], &[], &[])), @r"

    run: 
    inputs: 
    allowed: 
    frozen: 
    notes: no tests were found: name a command under `verification_commands`; no source was found: name the paths that may change under `allowed_paths`
    ");
}

#[test]
fn the_whole_file() {
    let proposal = propose(&facts(
        &["app/a.py", "tests/test_a.py", "odd [name].py"],
        &[("tox.ini", "[tox]\n")],
        &[Place::DotVenv],
    ));
    insta::assert_snapshot!(proposal.to_yaml());
    assert_eq!(read_back(&proposal), proposal.contract);
    let policy = PathPolicy::new(&proposal.contract);
    assert_eq!(
        policy.scope(b"odd [name].py").0,
        Scope::Allowed,
        "a name is no glob"
    );
    assert_eq!(policy.scope(b"odd n.py").0, Scope::NotAllowed);
}

#[test]
fn what_is_left_to_say_about_a_proposal() {
    let facts = facts(&["app/a.py", "tests/test_a.py"], &[], &[]);
    let warnings = contract_warnings(&propose(&facts).contract, &facts.tree);
    let codes: Vec<WarningCode> = warnings.iter().map(|w| w.code).collect();
    assert_eq!(
        codes,
        [
            WarningCode::NothingFailsBefore,
            WarningCode::InstructionUnfilled
        ]
    );
}

fn names() -> impl Strategy<Value = String> {
    let component = prop_oneof![
        3 => prop_oneof![Just("src"), Just("tests"), Just("vendor"), Just("lib"), Just(".env"), Just("-x")].prop_map(str::to_owned),
        1 => any::<String>().prop_map(|s| s.replace('/', "_")),
        1 => "[a-z \\[\\]*?:#{}!&|>'\"%@`\\\\~-]{1,8}",
    ];
    let ending = prop_oneof![Just(".py"), Just(".js"), Just(".rs"), Just(".go"), Just("")];
    (proptest::collection::vec(component, 1..4), ending)
        .prop_map(|(parts, end)| format!("{}{end}", parts.join("/")))
}

fn any_facts() -> impl Strategy<Value = ProjectFacts> {
    let texts = proptest::collection::btree_map(
        proptest::sample::select(KEY_FILES).prop_map(str::to_owned),
        prop_oneof![
            any::<String>(),
            any::<String>().prop_map(|s| serde_json::json!({"scripts": {"test": s}}).to_string()),
            "(node --test|pytest|test:|require|vendored-sources|\n| ){0,6}",
        ],
        0..4,
    );
    let present = proptest::collection::btree_set(proptest::sample::select(Place::ALL), 0..4);
    (
        any::<String>(),
        proptest::collection::btree_set(names(), 0..30),
        texts,
        present,
        any::<bool>(),
    )
        .prop_map(|(name, mut paths, texts, present, complete)| {
            paths.extend(texts.keys().cloned());
            ProjectFacts {
                name,
                tree: ProjectTree {
                    paths,
                    texts,
                    complete,
                },
                present,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_the_project_holds_the_proposal_reads_back(facts in any_facts()) {
        let proposal = propose(&facts);
        prop_assert_eq!(read_back(&proposal), proposal.contract);
    }

    #[test]
    fn a_proposal_never_lets_its_own_checks_change(facts in any_facts()) {
        let proposal = propose(&facts);
        let wrong = [WarningCode::ScriptNotFrozen, WarningCode::TestsNotFrozen, WarningCode::EverythingAllowed, WarningCode::InputUnsafe];
        for warning in contract_warnings(&proposal.contract, &facts.tree) {
            prop_assert!(!wrong.contains(&warning.code), "{warning:?}");
        }
    }
}

#[test]
fn secrets_and_lock_files_are_forbidden_at_any_depth_and_what_a_build_reads_stays() {
    let paths = [
        "app/main.py",
        "app/.env",
        "app/conf/.env.local",
        "services/api/secrets/key.pem",
        "services/api/credentials/token",
        "web/package-lock.json",
        "web/node_modules/x/index.js",
        "go/vendor/y/y.go",
        "deploy/run.sh",
        ".github/workflows/ci.yml",
    ];
    let contract = propose(&facts(&paths, &[], &[])).contract;
    let withheld = crate::paths::Withheld::new(&contract);
    let absent: Vec<&str> = paths
        .into_iter()
        .filter(|path| withheld.holds(path.as_bytes()))
        .collect();
    assert_eq!(
        absent,
        [
            "app/.env",
            "app/conf/.env.local",
            "services/api/secrets/key.pem",
            "services/api/credentials/token",
            "deploy/run.sh",
            ".github/workflows/ci.yml",
        ]
    );
    // What is not there yet may not come, and what a build reads may not change.
    let policy = crate::paths::PathPolicy::new(&TaskContract {
        allowed_paths: vec!["**".parse().unwrap()],
        ..contract
    });
    for path in paths
        .iter()
        .skip(1)
        .chain(&["deep/down/Cargo.lock", "a/b/vendor/z", ".env"])
    {
        assert_ne!(policy.scope(path.as_bytes()).0, Scope::Allowed, "{path}");
    }
    assert_eq!(policy.scope(b"app/main.py").0, Scope::Allowed);
}
