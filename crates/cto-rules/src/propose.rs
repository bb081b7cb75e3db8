//! A contract to start from, proposed from what a project looks like.
//!
//! A guess, written so that a person can correct it: narrow where it can be, with the checks frozen. Whatever the
//! project's files hold, the proposal reads back as the contract that it is.

pub mod delegate;
pub mod files;
mod languages;
#[cfg(test)]
mod tests;
mod yaml;

use std::collections::BTreeSet;

use cto_contract::ids::CaseId;
use cto_contract::input::{Input, InputMode, InputPath};
use cto_contract::path::PathPattern;
use cto_contract::task::{ContractSchema, EvidenceExpectations, Limits, TaskContract};
use cto_contract::words::{
    Action, DirtySource, HistoryClass, MutationMode, NetworkClass, RiskClass,
};

use crate::paths::LonePattern;
use crate::project::{
    DEEP_DEFAULTS, FORBIDDEN_DEFAULTS, KEY_FILES, ProjectFacts, ProjectTree, TEST_PATTERNS,
    is_test_directory, is_test_file, without_depth,
};

pub use languages::Language;

/// The instruction of a proposal: to be replaced.
pub const UNFILLED_INSTRUCTION: &str = "\
Say here what the change must do, and how a reader sees that it does.
Name functions, files and examples; whoever does it sees nothing but this text and the tree.
";
const UNFILLED_TITLE: &str = "Say in one line what is to change";

/// Most files of the top directory that are allowed one by one.
const TOP_FILES_MAX: usize = 20;
/// Most directories that are allowed.
const DIRECTORIES_MAX: usize = 20;

/// Directories of the top that hold no source of the product, or only what checks and ships it.
const NOT_SOURCE: &[&str] = &[
    "benches",
    "bin",
    "build",
    "ci",
    "coverage",
    "deploy",
    "dist",
    "doc",
    "docs",
    "infra",
    "node_modules",
    "scripts",
    "secrets",
    "credentials",
    "target",
    "tools",
    "vendor",
    "venv",
    "xtask",
];

/// Files that say how the checks are run.
const RUNNER_CONFIG: &[&str] = &[
    "Cargo.toml",
    "go.mod",
    "package.json",
    "tsconfig.json",
    "Makefile",
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "tox.ini",
    "pytest.ini",
];

/// What `cto init` writes and tells.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub languages: BTreeSet<Language>,
    /// The contract as a value; [`Proposal::to_yaml`] writes it.
    pub contract: TaskContract,
    /// What a person should know before he trusts it.
    pub notes: Vec<String>,
}

impl Proposal {
    /// The contract as commented YAML. [`TaskContract::read`] gives [`Proposal::contract`] back.
    pub fn to_yaml(&self) -> String {
        yaml::write(&self.contract)
    }
}

/// Proposes a contract.
pub fn propose(facts: &ProjectFacts) -> Proposal {
    let tree = &facts.tree;
    let languages = languages::found(tree);
    let mut notes = Vec::new();
    let mut verification = Vec::new();
    let mut inputs = Vec::new();
    for language in &languages {
        let checks = languages::checks(*language, facts);
        verification.extend(checks.commands);
        notes.extend(checks.notes);
        for place in checks.inputs {
            let Ok(from) = InputPath::try_from(place.as_str().to_owned()) else {
                continue;
            };
            let input = Input {
                from,
                mode: InputMode::ReadOnly,
            };
            if !inputs.contains(&input) {
                inputs.push(input);
            }
        }
    }
    if verification.is_empty() && languages::has_make_test(tree) {
        verification.push(languages::plain("make test"));
    }
    if verification.is_empty() {
        notes.push("no tests were found: name a command under `verification_commands`".to_owned());
    }
    let allowed_paths = allowed(tree, &languages);
    if allowed_paths.is_empty() {
        notes.push(
            "no source was found: name the paths that may change under `allowed_paths`".to_owned(),
        );
    }
    if !tree.complete {
        notes.push("the project is larger than what was looked at: check the paths".to_owned());
    }
    let kept = kept_as_they_are(tree);
    let forbidden = FORBIDDEN_DEFAULTS
        .iter()
        .copied()
        .filter(|d| !kept.contains(d));
    let frozen = frozen(tree)
        .into_iter()
        .chain(kept.iter().filter_map(|k| k.parse().ok()))
        .collect::<BTreeSet<_>>();
    let contract = TaskContract {
        schema: ContractSchema,
        task_id: task_id(&facts.name),
        title: UNFILLED_TITLE.to_owned(),
        instruction: UNFILLED_INSTRUCTION.to_owned(),
        target_id: None,
        authority_basis: None,
        route: None,
        risk_class: RiskClass::Copied,
        allowed_paths,
        forbidden_paths: forbidden.filter_map(|p| p.parse().ok()).collect(),
        frozen_paths: frozen.into_iter().collect(),
        readable_paths: Vec::new(),
        forbidden_actions: Action::ALL.iter().copied().collect(),
        permitted_actions: BTreeSet::new(),
        mutation_mode: Some(MutationMode::CopiedFixture),
        approval_required: false,
        approval_policy: None,
        setup_commands: Vec::new(),
        inputs,
        verification_commands: verification,
        no_test_rationale: None,
        diff_required: true,
        success_criteria: Vec::new(),
        rollback_expectation: None,
        evidence_expectations: EvidenceExpectations::default(),
        branch_policy: None,
        dirty_source: DirtySource::Refused,
        history: HistoryClass::None,
        limits: limits(&languages),
        network: NetworkClass::None,
    };
    Proposal {
        languages,
        contract,
        notes,
    }
}

/// The project's name as an id; `task` when nothing of it can be used.
fn task_id(name: &str) -> CaseId {
    let mut slug = String::new();
    for c in name.chars().take(48).map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    let id = if slug.is_empty() {
        "task".to_owned()
    } else {
        format!("{slug}-task")
    };
    #[expect(
        clippy::expect_used,
        reason = "a slug of at most 53 characters is an id"
    )]
    id.parse().expect("made of the letters that an id may have")
}

/// A pattern that means exactly this path; a trailing `/` stays one. None for a name that no pattern can hold.
fn exactly(path: &str) -> Option<PathPattern> {
    let mut escaped = String::with_capacity(path.len());
    for c in path.chars() {
        if matches!(c, '*' | '?' | '[' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped.parse().ok()
}

/// Where the source is: directories of the top that hold some, and files of the top.
fn allowed(tree: &ProjectTree, languages: &BTreeSet<Language>) -> Vec<PathPattern> {
    let is_source = |path: &str| languages.iter().any(|l| l.is_source(path));
    let mut directories = BTreeSet::new();
    let mut files = Vec::new();
    for path in tree.paths.iter().filter(|p| is_source(p)) {
        match path.split_once('/') {
            Some((top, _)) if is_source_directory(top) => {
                directories.insert(top);
            }
            Some(_) => {}
            None if RUNNER_CONFIG.contains(&path.as_str()) || is_test_file(path) => {}
            None => files.push(path.as_str()),
        }
    }
    let directories = directories.iter().take(DIRECTORIES_MAX);
    let directories = directories.filter_map(|d| exactly(&format!("{d}/")));
    if files.len() > TOP_FILES_MAX {
        let endings: BTreeSet<String> = files
            .iter()
            .filter_map(|f| f.rsplit_once('.'))
            .map(|(_, ending)| format!("*.{ending}"))
            .collect();
        let endings = endings.iter().filter_map(|e| e.parse().ok());
        return directories.chain(endings).collect();
    }
    directories
        .chain(files.into_iter().filter_map(exactly))
        .collect()
}

fn is_source_directory(name: &str) -> bool {
    !name.starts_with('.') && !NOT_SOURCE.contains(&name) && !is_test_directory(name)
}

/// Defaults that are part of the tree, at whatever depth, and that a build reads: frozen, so that they stay where they are.
fn kept_as_they_are(tree: &ProjectTree) -> BTreeSet<&'static str> {
    let builds = |default: &'static str| match without_depth(default) {
        "vendor/" | "node_modules/" => true,
        name => !name.contains('/') && !name.starts_with('.'),
    };
    FORBIDDEN_DEFAULTS
        .iter()
        .copied()
        .zip(DEEP_DEFAULTS.iter())
        .filter(|(default, _)| builds(default))
        .filter(|(_, (_, deep))| tree.paths.iter().any(|path| deep.matches(path)))
        .map(|(default, _)| default)
        .collect()
}

/// What judges the change: tests by directory and by name, and what configures their runner.
fn frozen(tree: &ProjectTree) -> Vec<PathPattern> {
    let mut tops = BTreeSet::new();
    let mut nested = BTreeSet::new();
    for path in &tree.paths {
        let Some((directories, _)) = path.rsplit_once('/') else {
            continue;
        };
        for (depth, directory) in directories.split('/').enumerate() {
            if is_test_directory(directory) {
                if depth == 0 {
                    tops.insert(format!("{directory}/"));
                } else {
                    nested.insert(format!("**/{directory}/"));
                }
            }
        }
    }
    let mut out: Vec<PathPattern> = tops
        .iter()
        .chain(&nested)
        .filter_map(|p| p.parse().ok())
        .collect();
    let covered: Vec<LonePattern> = out.iter().map(LonePattern::new).collect();
    let open: Vec<&String> = tree
        .paths
        .iter()
        .filter(|p| !covered.iter().any(|c| c.matches(p)))
        .collect();
    for (pattern, lone) in TEST_PATTERNS.iter() {
        if open.iter().any(|p| lone.matches(p)) {
            out.push(pattern.clone());
        }
    }
    let config = RUNNER_CONFIG
        .iter()
        .chain(KEY_FILES)
        .copied()
        .collect::<BTreeSet<_>>();
    for name in config {
        let deep = format!("**/{name}");
        let pattern = if name == "Cargo.toml" { &deep } else { name };
        if tree.has(name) {
            out.extend(pattern.parse());
        }
    }
    out
}

fn limits(languages: &BTreeSet<Language>) -> Limits {
    let compiles = languages.contains(&Language::Rust);
    Limits {
        wall_seconds: Some(if compiles { 1800 } else { 900 }),
        memory_mb: Some(4096),
        processes: Some(512),
        disk_mb: Some(4096),
        output_mb: Some(64),
        ..Limits::default()
    }
}
