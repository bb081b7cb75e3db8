//! A project as advice and proposals see it: its paths, the small texts of a few files, and what lies beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use cto_contract::path::PathPattern;
use cto_contract::wire_enum;

use crate::paths::LonePattern;

/// Files of the top directory whose text is looked at when they are there.
pub const KEY_FILES: &[&str] = &[
    "package.json",
    "pyproject.toml",
    "setup.cfg",
    "requirements.txt",
    "requirements-dev.txt",
    "requirements-test.txt",
    "dev-requirements.txt",
    "test-requirements.txt",
    "Cargo.toml",
    ".cargo/config.toml",
    "go.mod",
    "Makefile",
    "tox.ini",
    "pytest.ini",
];

/// Longest text of a key file that is worth a look.
pub const KEY_FILE_BYTES_MAX: usize = 256 << 10;

/// Patterns that no ordinary change touches: good defaults for `forbidden_paths`. Secrets and what tools write lie at any
/// depth; how a project is shipped is said at its top.
pub const FORBIDDEN_DEFAULTS: &[&str] = &[
    "**/.env",
    "**/.env.*",
    "**/secrets/",
    "**/credentials/",
    "deploy/",
    "infra/",
    ".github/workflows/",
    "**/node_modules/",
    "**/vendor/",
    "**/Cargo.lock",
    "**/Gemfile.lock",
    "**/Pipfile.lock",
    "**/Podfile.lock",
    "**/bun.lock",
    "**/bun.lockb",
    "**/composer.lock",
    "**/deno.lock",
    "**/flake.lock",
    "**/go.sum",
    "**/go.work.sum",
    "**/gradle.lockfile",
    "**/mix.lock",
    "**/npm-shrinkwrap.json",
    "**/package-lock.json",
    "**/packages.lock.json",
    "**/pdm.lock",
    "**/pnpm-lock.yaml",
    "**/poetry.lock",
    "**/pubspec.lock",
    "**/uv.lock",
    "**/yarn.lock",
];

/// The tree of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectTree {
    /// Paths of files, relative, `/`-separated. What is not UTF-8 is left out: no pattern matches it.
    pub paths: BTreeSet<String>,
    /// Texts of [`KEY_FILES`], as far as they are there and small enough.
    pub texts: BTreeMap<String, String>,
    /// False when the listing ended early or never began: then nothing follows from a path that is not in it.
    pub complete: bool,
}

impl ProjectTree {
    pub fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// True when a file lies below the directory.
    pub fn has_below(&self, directory: &str) -> bool {
        let prefix = format!("{}/", directory.trim_end_matches('/'));
        self.paths
            .range(prefix.clone()..)
            .next()
            .is_some_and(|path| path.starts_with(&prefix))
    }

    /// The text of a key file; empty when there is none.
    pub fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", String::as_str)
    }

    /// The table of a key file; empty when there is none or it is no TOML.
    pub(crate) fn toml(&self, name: &str) -> toml::Value {
        let table: toml::Table = self.text(name).parse().unwrap_or_default();
        table.into()
    }
}

wire_enum! {
    /// Places outside the tree from which tests take what they need.
    pub enum Place {
        NodeModules = "node_modules/",
        DotVenv = ".venv/",
        Venv = "venv/",
        Vendor = "vendor/",
        CargoRegistry = "~/.cargo/registry",
        /// The toolchains behind rustup's `cargo`.
        Rustup = "~/.rustup",
        GoModules = "~/go/pkg/mod",
    }
}

/// Everything that a proposal may look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectFacts {
    /// Name of the project's directory.
    pub name: String,
    pub tree: ProjectTree,
    /// Places that exist.
    pub present: BTreeSet<Place>,
}

const TEST_DIRECTORIES: &[&str] = &["tests", "test", "__tests__", "spec", "specs", "testdata"];

/// True for a directory that by its name holds tests.
pub fn is_test_directory(name: &str) -> bool {
    TEST_DIRECTORIES.contains(&name)
}

/// File names of tests, for any depth.
const TEST_FILES: &[&str] = &[
    "**/test_*.py",
    "**/*_test.py",
    "**/*_test.go",
    "**/*.test.[cm]js",
    "**/*.test.[jt]s",
    "**/*.test.[jt]sx",
    "**/*.spec.[cm]js",
    "**/*.spec.[jt]s",
    "**/*.spec.[jt]sx",
    "**/tests.rs",
    "**/*_test.rs",
    "**/*_tests.rs",
    "**/*_spec.rb",
    "**/*Test.java",
];

/// File names of tests as patterns, compiled once.
pub static TEST_PATTERNS: LazyLock<Vec<(PathPattern, LonePattern)>> =
    LazyLock::new(|| compiled(TEST_FILES.iter().map(|p| (*p).to_owned())));

/// [`FORBIDDEN_DEFAULTS`], each at any depth, in the same order.
pub(crate) static DEEP_DEFAULTS: LazyLock<Vec<(PathPattern, LonePattern)>> = LazyLock::new(|| {
    compiled(
        FORBIDDEN_DEFAULTS
            .iter()
            .map(|p| format!("**/{}", without_depth(p))),
    )
});

/// The name that a default is about, without where it may lie.
pub(crate) fn without_depth(default: &'static str) -> &'static str {
    default.strip_prefix("**/").unwrap_or(default)
}

fn compiled(patterns: impl Iterator<Item = String>) -> Vec<(PathPattern, LonePattern)> {
    let parsed = patterns.filter_map(|p| p.parse::<PathPattern>().ok());
    parsed.map(|p| (p.clone(), LonePattern::new(&p))).collect()
}

/// True for a file that by its name is a test.
pub fn is_test_file(path: &str) -> bool {
    TEST_PATTERNS.iter().any(|(_, lone)| lone.matches(path))
}

/// True for a file that by its name or by a directory above it belongs to the tests.
pub fn is_of_tests(path: &str) -> bool {
    let directories = path.rsplit_once('/').map_or("", |(above, _)| above);
    directories.split('/').any(is_test_directory) || is_test_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_here_is_one() {
        assert_eq!(TEST_PATTERNS.len(), TEST_FILES.len());
        assert_eq!(DEEP_DEFAULTS.len(), FORBIDDEN_DEFAULTS.len());
    }

    #[test]
    fn a_directory_is_known_by_what_lies_below_it() {
        let tree = ProjectTree {
            paths: ["a/b", "ab"].map(str::to_owned).into(),
            ..ProjectTree::default()
        };
        assert!(tree.has_below("a") && tree.has_below("a/"));
        assert!(!tree.has_below("ab") && !tree.has_below("b"));
    }
}
