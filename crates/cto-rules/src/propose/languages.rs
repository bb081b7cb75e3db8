//! Languages of a project: how each is known, and how its tests are run offline.

use std::collections::BTreeSet;

use cto_contract::task::{Expect, VerificationCommand};
use cto_contract::wire_enum;
use serde_json::Value;

use crate::checks::Runner;
use crate::project::{Place, ProjectFacts, ProjectTree, is_test_directory};

wire_enum! {
    /// A language that a proposal knows tests for.
    pub enum Language { Python = "python", Node = "node", Rust = "rust", Go = "go" }
}

impl Language {
    const fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["py", "pyi"],
            Self::Node => &["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"],
            Self::Rust => &["rs"],
            Self::Go => &["go"],
        }
    }

    const fn manifests(self) -> &'static [&'static str] {
        match self {
            Self::Python => &[
                "pyproject.toml",
                "setup.py",
                "setup.cfg",
                "requirements.txt",
            ],
            Self::Node => &["package.json"],
            Self::Rust => &["Cargo.toml"],
            Self::Go => &["go.mod"],
        }
    }

    pub(super) fn is_source(self, path: &str) -> bool {
        path.rsplit_once('.')
            .is_some_and(|(_, ending)| self.endings().contains(&ending))
    }
}

/// How one language is checked.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) commands: Vec<VerificationCommand>,
    pub(super) inputs: Vec<Place>,
    pub(super) notes: Vec<String>,
}

/// A language is there by its manifest; scripts without one are known by their files, but only in Python and Node,
/// whose tests need none.
pub(super) fn found(tree: &ProjectTree) -> BTreeSet<Language> {
    let is_there = |language: &Language| {
        language.manifests().iter().any(|m| tree.has(m))
            || match language {
                // Somebody's tool in a corner is no reason: source or tests of the top, or one level down.
                Language::Python | Language::Node => tree
                    .paths
                    .iter()
                    .any(|p| language.is_source(p) && is_near_the_top(p)),
                Language::Rust | Language::Go => false,
            }
    };
    Language::ALL.iter().copied().filter(is_there).collect()
}

fn is_near_the_top(path: &str) -> bool {
    match path.split_once('/') {
        None => true,
        Some((top, _)) => top == "src" || top == "lib" || is_test_directory(top),
    }
}

pub(super) fn checks(language: Language, facts: &ProjectFacts) -> Checks {
    match language {
        Language::Python => python(facts),
        Language::Node => node(facts),
        Language::Rust => rust(facts),
        Language::Go => go(facts),
    }
}

pub(super) fn has_make_test(tree: &ProjectTree) -> bool {
    tree.text("Makefile").lines().any(|l| {
        l.split_once(':')
            .is_some_and(|(targets, _)| targets.split_whitespace().any(|t| t == "test"))
    })
}

/// A command that must count at least one test where its runner can be counted.
pub(super) fn plain(run: &str) -> VerificationCommand {
    VerificationCommand {
        run: run.to_owned(),
        expect: Expect {
            min_tests: Runner::recognise(run).map(|_| 1),
            ..Expect::default()
        },
        must_fail_before: false,
        repeat: 1,
    }
}

fn python(facts: &ProjectFacts) -> Checks {
    let tree = &facts.tree;
    let mut checks = Checks::default();
    let venv = [Place::DotVenv, Place::Venv]
        .into_iter()
        .find(|p| facts.present.contains(p));
    let python = match venv {
        Some(place) => {
            checks.inputs.push(place);
            format!("{}bin/python", place.as_str())
        }
        None => "python3".to_owned(),
    };
    let tests: Vec<&str> = tree
        .paths
        .iter()
        .map(String::as_str)
        .filter(|p| is_python_test(p))
        .collect();
    let pyproject = tree.toml("pyproject.toml");
    let pytest = uses_pytest(tree, &pyproject);
    if venv.is_none() && (pytest || names_dependencies(tree, &pyproject)) {
        checks.notes.push(
            "there is no `.venv/`: what the tests import must be installed for `python3` itself"
                .to_owned(),
        );
    }
    if tests.is_empty() && !pytest {
        return checks;
    }
    // With sources below `src/`, neither runner finds them by itself.
    let has_src = tree
        .paths
        .iter()
        .any(|p| p.starts_with("src/") && p.ends_with(".py"));
    let is_set = pytest && mentions(&pyproject, |word| word == "pythonpath");
    let prefix = if has_src && !is_set {
        "PYTHONPATH=src "
    } else {
        ""
    };
    let command = if pytest {
        format!("{prefix}{python} -m pytest -q")
    } else {
        format!("{prefix}{python} -m unittest{}", discovery(&tests, tree))
    };
    checks.commands.push(plain(&command));
    checks
}

/// How unittest is told where to look: by itself it enters only packages.
fn discovery(tests: &[&str], tree: &ProjectTree) -> String {
    if tests.iter().any(|t| !t.contains('/')) {
        return String::new();
    }
    let tops: BTreeSet<&str> = tests
        .iter()
        .filter_map(|t| t.split_once('/'))
        .map(|(top, _)| top)
        .collect();
    match tops.first() {
        Some(top)
            if tops.len() == 1
                && is_plain_word(top)
                && !tree.has(&format!("{top}/__init__.py")) =>
        {
            format!(" discover -s {top}")
        }
        Some(_) | None => String::new(),
    }
}

fn is_plain_word(word: &str) -> bool {
    !word.starts_with('-')
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

fn is_python_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("test") && name.ends_with(".py")
}

fn uses_pytest(tree: &ProjectTree, pyproject: &toml::Value) -> bool {
    let has = |file: &str, needle: &str| tree.text(file).contains(needle);
    let required = tree
        .texts
        .iter()
        .filter(|(name, _)| name.contains("requirements"))
        .any(|(_, text)| text.lines().any(|l| l.trim_start().starts_with("pytest")));
    tree.has("pytest.ini")
        || tree
            .paths
            .iter()
            .any(|p| p.rsplit('/').next() == Some("conftest.py"))
        || mentions(pyproject, |word| word.starts_with("pytest"))
        || has("setup.cfg", "[tool:pytest]")
        || has("tox.ini", "pytest")
        || required
}

fn names_dependencies(tree: &ProjectTree, pyproject: &toml::Value) -> bool {
    mentions(pyproject, |word| word.contains("dependencies"))
        || tree.text("setup.cfg").contains("install_requires")
        || tree.texts.keys().any(|name| name.contains("requirements"))
}

/// Whether a key or a string, at any depth, fits.
fn mentions(value: &toml::Value, fits: fn(&str) -> bool) -> bool {
    match value {
        toml::Value::String(text) => fits(text),
        toml::Value::Array(items) => items.iter().any(|item| mentions(item, fits)),
        toml::Value::Table(table) => table
            .iter()
            .any(|(key, value)| fits(key) || mentions(value, fits)),
        toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_) => false,
    }
}

fn node(facts: &ProjectFacts) -> Checks {
    let tree = &facts.tree;
    let mut checks = Checks::default();
    let package: Value = serde_json::from_str(tree.text("package.json")).unwrap_or(Value::Null);
    if facts.present.contains(&Place::NodeModules) {
        checks.inputs.push(Place::NodeModules);
    } else if ["dependencies", "devDependencies"]
        .iter()
        .any(|k| package[*k].as_object().is_some_and(|d| !d.is_empty()))
    {
        checks.notes.push(
            "package.json has dependencies and there is no `node_modules/`: install them first, runs have no network".to_owned(),
        );
    }
    let script = package["scripts"]["test"]
        .as_str()
        .map(str::trim)
        .filter(|s| !s.is_empty() && !s.contains("no test specified"));
    match script {
        // The runner itself is known and can be counted; behind npm it can't.
        Some(script) if is_node_test(script) => checks.commands.push(plain(script)),
        Some(_) => checks.commands.push(plain("npm test")),
        None if tree.paths.iter().any(|p| is_node_test_file(p)) => {
            checks.commands.push(plain("node --test"));
        }
        None => {}
    }
    checks
}

fn is_node_test(script: &str) -> bool {
    let mut words = script.split(' ').filter(|w| !w.is_empty());
    words.next() == Some("node")
        && words.clone().any(|w| w == "--test")
        && script
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || " _-./=".contains(c))
}

/// Where node's runner looks by itself.
fn is_node_test_file(path: &str) -> bool {
    if !Language::Node.is_source(path) {
        return false;
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    stem == "test"
        || stem.starts_with("test-")
        || [".test", "-test", "_test"]
            .iter()
            .any(|end| stem.ends_with(end))
        || path.split('/').rev().skip(1).any(|d| d == "test")
}

fn rust(facts: &ProjectFacts) -> Checks {
    let tree = &facts.tree;
    let mut checks = Checks::default();
    let locked = if tree.has("Cargo.lock") {
        " --locked"
    } else {
        ""
    };
    checks
        .commands
        .push(plain(&format!("cargo test --offline{locked}")));
    let config = tree.toml(".cargo/config.toml");
    let is_vendored =
        tree.has_below("vendor") || mentions(&config, |word| word == "vendored-sources");
    if is_vendored && !tree.has_below("vendor") && facts.present.contains(&Place::Vendor) {
        checks.inputs.push(Place::Vendor);
    } else if !is_vendored && facts.present.contains(&Place::CargoRegistry) {
        checks.inputs.push(Place::CargoRegistry);
    }
    if facts.present.contains(&Place::Rustup) {
        checks.inputs.push(Place::Rustup);
    }
    if locked.is_empty() {
        checks.notes.push(
            "there is no `Cargo.lock`: commit one, so that every run builds the same".to_owned(),
        );
    }
    checks
}

fn go(facts: &ProjectFacts) -> Checks {
    let mut checks = Checks::default();
    checks.commands.push(plain("go test ./..."));
    let is_vendored = facts.tree.has_below("vendor");
    if !is_vendored && facts.present.contains(&Place::Vendor) {
        checks.inputs.push(Place::Vendor);
    } else if !is_vendored
        && facts.present.contains(&Place::GoModules)
        && facts.tree.text("go.mod").contains("require")
    {
        checks.inputs.push(Place::GoModules);
    }
    checks
}
