//! Files that are frozen without being named: where a test runner looks for itself, and what steers an agent.
//!
//! Whoever writes one of them decides what the next check or the next agent does, so a glob that happens to cover it
//! is not enough; the contract must name it.

mod tools;

use super::never;

/// What git reads beside the files it is about, in every spelling that some file system takes for it: it decides which
/// files there are and what is written for them.
const GIT_FILES: &[&str] = &[".gitattributes", ".gitignore"];

/// Modules that Python imports by itself, as a file of any kind or as a package.
const PYTHON_MODULES: &[&str] = &["sitecustomize", "usercustomize"];

/// Modules that are pytest itself: `python3 -m pytest` takes them from the tree before any other.
const PYTEST_MODULES: &[&str] = &["pytest", "_pytest", "pluggy"];

/// Instructions for agents, in any case: some agents fold it.
const STEERING_FILES: &[&str] = &[
    "agents.md",
    "agents.override.md",
    "claude.md",
    "claude.local.md",
    "gemini.md",
    ".mcp.json",
    ".cursorrules",
    ".windsurfrules",
];

/// Directories of agents' own configuration; a link or file of that name counts as well.
const STEERING_DIRS: &[&str] = &[".claude", ".codex", ".pi", ".cursor", ".gemini"];

/// Steering files by their last two components.
const STEERING_PAIRS: &[(&str, &str)] = &[
    (".github", "copilot-instructions.md"),
    (".github", "instructions"),
    (".vscode", "mcp.json"),
];

/// The rule that makes a path a runner file.
pub(super) fn runner_rule(path: &str) -> Option<String> {
    let rule = |what: &str| Some(format!("rule: test runner file `{what}`"));
    for component in path.split('/') {
        if component.starts_with("unittest") {
            return rule("unittest*");
        }
        if let Some(module) = PYTHON_MODULES.iter().find(|m| is_module(component, m)) {
            return rule(&format!("{module}.py"));
        }
    }
    let (_, name) = last_two(path);
    if let Some(file) = GIT_FILES.iter().find(|f| never::is_git_file(name, f)) {
        return rule(file);
    }
    if let Some(pattern) = tools::pattern_of(path) {
        return rule(pattern);
    }
    let is_pytest = |c: &str| PYTEST_MODULES.iter().copied().find(|m| is_module(c, m));
    path.split('/')
        .find_map(is_pytest)
        .and_then(|module| rule(&format!("{module}.py")))
}

/// The rule that makes a path a steering file.
pub(super) fn steering_rule(path: &str) -> Option<String> {
    let rule = |what: &str| Some(format!("rule: steering file `{what}`"));
    let folded = path.to_ascii_lowercase();
    if let Some(dir) = STEERING_DIRS
        .iter()
        .find(|d| folded.split('/').any(|c| c == **d))
    {
        return rule(&format!("{dir}/"));
    }
    let (_, name) = last_two(&folded);
    if let Some(file) = STEERING_FILES.iter().find(|f| **f == name) {
        return rule(file);
    }
    let components: Vec<&str> = folded.split('/').collect();
    // What stands in the place of the directory would bring its own files along.
    let pair = STEERING_PAIRS.iter().find(|(dir, file)| {
        name == *dir || components.windows(2).any(|w| w[0] == *dir && w[1] == *file)
    });
    pair.and_then(|(dir, file)| rule(&format!("{dir}/{file}")))
}

fn is_module(component: &str, module: &str) -> bool {
    component
        .strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn last_two(path: &str) -> (&str, &str) {
    let mut from_end = path.rsplit('/');
    let name = from_end.next().unwrap_or(path);
    (from_end.next().unwrap_or(""), name)
}
