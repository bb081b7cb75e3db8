//! The path policy: which verdict a changed path gets, and which rule gave it.
//!
//! Paths are bytes as git has them. Every list fails closed: what cannot be understood is refused, and removing an
//! allowed pattern or adding a forbidden one never allows more.

mod glob;
mod implicit;
mod never;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
mod withheld;

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{DiffChecked, Scope, ScopedPath};
use cto_contract::path::PathPattern;
use cto_contract::task::TaskContract;
use cto_contract::text;

use crate::patch::{MODE_GITLINK, MODE_SYMLINK, PatchEntry};
use glob::{Broken, Glob};

pub use withheld::Withheld;

/// Most paths that one message names.
const PATHS_SHOWN_MAX: usize = 20;
/// Most characters of one path in a message.
const PATH_SHOWN_CHARS: usize = 120;

/// The patterns of one contract, compiled.
#[derive(Debug, Clone)]
pub struct PathPolicy {
    allowed: Vec<Glob>,
    forbidden: Vec<Glob>,
    frozen: Vec<Glob>,
}

impl PathPolicy {
    /// Compiles the three lists of a contract; result files of its checks are frozen too.
    pub fn new(contract: &TaskContract) -> Self {
        let compile = |patterns: &[PathPattern], broken| {
            patterns.iter().map(|p| Glob::new(p, broken)).collect()
        };
        let mut frozen: Vec<Glob> = compile(&contract.frozen_paths, Broken::MatchesEverything);
        // A result that the change brings along is not the check's.
        let commands = contract.verification_commands.iter();
        let results = commands.filter_map(|command| command.expect.junit.as_ref());
        frozen.extend(results.map(|p| Glob::new(p, Broken::MatchesEverything)));
        Self {
            allowed: compile(&contract.allowed_paths, Broken::MatchesNothing),
            forbidden: compile(&contract.forbidden_paths, Broken::MatchesEverything),
            frozen,
        }
    }

    /// The verdict on a path, and the pattern or rule that gave it.
    pub fn scope(&self, path: &[u8]) -> (Scope, String) {
        let Ok(name) = std::str::from_utf8(path) else {
            return (
                Scope::NotUtf8,
                "rule: a path that is not UTF-8 matches nothing".to_owned(),
            );
        };
        if let Some(rule) = never::path_refusal(name) {
            return (Scope::NeverAllowable, rule.to_owned());
        }
        let first = |list: &[Glob]| {
            list.iter()
                .find(|g| g.matches(path))
                .map(|g| g.text().to_owned())
        };
        if let Some(pattern) = first(&self.forbidden) {
            return (Scope::Forbidden, pattern);
        }
        if let Some(pattern) = first(&self.frozen) {
            return (Scope::Frozen, pattern);
        }
        if !self.names(path)
            && let Some(frozen) = implicitly_frozen(name)
        {
            return frozen;
        }
        match first(&self.allowed) {
            Some(pattern) => (Scope::Allowed, pattern),
            None => (
                Scope::NotAllowed,
                "rule: no allowed pattern matches".to_owned(),
            ),
        }
    }

    /// The allowed pattern that a path matches, whatever else is said about it.
    pub fn allowed_by(&self, path: &[u8]) -> Option<&str> {
        let found = self.allowed.iter().find(|g| g.matches(path));
        found.map(Glob::text)
    }

    /// Whether an allowed pattern is this very path.
    pub fn names(&self, path: &[u8]) -> bool {
        self.allowed.iter().any(|g| g.names(path))
    }

    /// Whether an allowed pattern matches the path and spells these of its components out.
    pub fn names_part(&self, path: &[u8], part: &[u8]) -> bool {
        let part: Vec<&[u8]> = part.split(|&byte| byte == b'/').collect();
        let spells = |text: &str| {
            let components: Vec<&[u8]> = text.split('/').map(str::as_bytes).collect();
            components.windows(part.len()).any(|window| window == part)
        };
        let mut allowed = self.allowed.iter();
        allowed.any(|g| spells(g.text()) && g.matches(path))
    }

    /// The verdict on one entry of a patch: its path, and what it puts there.
    pub fn scope_of(&self, entry: &PatchEntry) -> (Scope, String) {
        let by_path = self.scope(&entry.path);
        if by_path.0 == Scope::NotUtf8 || by_path.0 == Scope::NeverAllowable {
            return by_path;
        }
        let never = |rule: &str| (Scope::NeverAllowable, rule.to_owned());
        if entry.before_mode == Some(MODE_GITLINK) || entry.after_mode == Some(MODE_GITLINK) {
            return never("rule: a link to another repository (gitlink)");
        }
        if entry.after_mode == Some(MODE_SYMLINK) {
            if let Some(rule) = never::link_refusal(&entry.path, entry.symlink_target.as_deref()) {
                return never(rule);
            }
            // A link in the place of a forbidden directory would fill that directory with other files.
            let first = |list: &[Glob]| {
                list.iter()
                    .find(|g| g.covers_directory(&entry.path))
                    .map(|g| g.text().to_owned())
            };
            if by_path.0 == Scope::Allowed || by_path.0 == Scope::NotAllowed {
                if let Some(pattern) = first(&self.forbidden) {
                    return (Scope::Forbidden, pattern);
                }
                if let Some(pattern) = first(&self.frozen) {
                    return (Scope::Frozen, pattern);
                }
            }
        }
        by_path
    }
}

/// The verdict on a path that is frozen until the contract names it, and the rule that gives it.
pub fn implicitly_frozen(path: &str) -> Option<(Scope, String)> {
    let runner = implicit::runner_rule(path).map(|rule| (Scope::RunnerFile, rule));
    runner.or_else(|| implicit::steering_rule(path).map(|rule| (Scope::SteeringFile, rule)))
}

/// Whether a path instructs agents, sets them up, or names programs that they start: an input of the run, by its digest.
pub fn is_steering(path: &str) -> bool {
    implicit::steering_rule(path).is_some()
}

/// One pattern alone: for advice about it or for a name that a tool matches alike, never for a verdict on a path.
#[derive(Debug, Clone)]
pub struct LonePattern(Glob);

impl LonePattern {
    pub fn new(pattern: &PathPattern) -> Self {
        Self(Glob::new(pattern, Broken::MatchesNothing))
    }

    pub fn matches(&self, path: &str) -> bool {
        self.0.matches(path.as_bytes())
    }
}

/// Judges a whole change: every path, and whether there had to be one.
pub fn check_diff(contract: &TaskContract, entries: &[PatchEntry]) -> DiffChecked {
    let policy = PathPolicy::new(contract);
    let scopes: Vec<ScopedPath> = entries
        .iter()
        .map(|entry| {
            let (scope, decided_by) = policy.scope_of(entry);
            ScopedPath {
                path: text::path_text(&entry.path),
                scope,
                decided_by,
            }
        })
        .collect();
    let refused: Vec<&ScopedPath> = scopes
        .iter()
        .filter(|s| s.scope != Scope::Allowed)
        .collect();
    let mut blockers = Vec::new();
    if contract.diff_required && entries.is_empty() {
        blockers.push(Blocker::new(
            BlockerCode::NoDiff,
            "",
            "the contract requires a change and nothing changed",
        ));
    }
    if let Some(first) = refused.first() {
        let mut blocker = Blocker::new(
            BlockerCode::DisallowedFileChange,
            &first.path,
            refusal_message(&refused),
        );
        if let Some(hint) = refusal_hint(first.scope) {
            blocker.hint = hint.to_owned();
        }
        blockers.push(blocker);
    }
    DiffChecked {
        changed_files: scopes.iter().map(|s| s.path.clone()).collect(),
        allowed_writes_passed: refused.is_empty(),
        forbidden_paths_passed: !scopes.iter().any(|s| is_forbidding(s.scope)),
        scopes,
        blockers,
    }
}

/// True for verdicts that come from a rule against the path, not from the lack of one for it.
fn is_forbidding(scope: Scope) -> bool {
    match scope {
        Scope::Forbidden
        | Scope::Frozen
        | Scope::RunnerFile
        | Scope::SteeringFile
        | Scope::NeverAllowable => true,
        Scope::Allowed | Scope::NotAllowed | Scope::NotUtf8 => false,
    }
}

/// What to do about a path, where a wider `allowed_paths` would not help: nothing else than these lets it change.
pub fn refusal_hint(scope: Scope) -> Option<&'static str> {
    match scope {
        Scope::Forbidden => Some(
            "take the path out of `forbidden_paths` in the contract if it was meant to change, else rerun",
        ),
        Scope::Frozen => Some(
            "take the path out of `frozen_paths` in the contract if it was meant to change, else rerun",
        ),
        Scope::RunnerFile | Scope::SteeringFile => Some(
            "name this very path in `allowed_paths` if it was meant to change (a pattern does not do), else rerun",
        ),
        Scope::NeverAllowable | Scope::NotUtf8 => {
            Some("no contract can allow this path: rerun without it")
        }
        Scope::Allowed | Scope::NotAllowed => None,
    }
}

fn refusal_message(refused: &[&ScopedPath]) -> String {
    let named: Vec<String> = refused
        .iter()
        .take(PATHS_SHOWN_MAX)
        .map(|s| {
            let path = text::shorten(&s.path, PATH_SHOWN_CHARS);
            let by = text::shorten(&s.decided_by, PATH_SHOWN_CHARS);
            format!("`{path}` is {} ({by})", s.scope)
        })
        .collect();
    let rest = refused.len().saturating_sub(PATHS_SHOWN_MAX);
    let more = if rest == 0 {
        String::new()
    } else {
        format!("; and {rest} more")
    };
    format!("{}{more}", named.join("; "))
}
