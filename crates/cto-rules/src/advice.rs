//! Advice about a contract: what is in order by the letter and still likely a mistake. Advice blocks nothing.
//!
//! What a path's verdict is comes from the path policy; here it is only asked about, with the paths of a tree and with
//! made-up ones where the tree has none.

mod inputs;
mod scripts;
#[cfg(test)]
mod tests;

use cto_contract::event::Scope;
use cto_contract::path::PathPattern;
use cto_contract::task::TaskContract;
use cto_contract::text::shorten;
use cto_contract::wire_enum;
use serde::Serialize;

use crate::checks::{Check, OracleUse, all_checks};
use crate::paths::{LonePattern, PathPolicy, implicitly_frozen};
use crate::project::{DEEP_DEFAULTS, FORBIDDEN_DEFAULTS, ProjectTree, is_of_tests, without_depth};
use crate::propose::UNFILLED_INSTRUCTION;

/// Most names that one message lists.
const NAMES_SHOWN_MAX: usize = 5;
/// Most characters of one name in a message.
const NAME_SHOWN_CHARS: usize = 100;

wire_enum! {
    /// Why a contract may not say what its author means. Closed: each has its message, its hint and its test.
    pub enum WarningCode {
        ScriptNotFrozen = "script_not_frozen",
        TestsNotFrozen = "tests_not_frozen",
        RunnerFileAllowed = "runner_file_allowed",
        SteeringFileAllowed = "steering_file_allowed",
        NothingAllowed = "nothing_allowed",
        EverythingAllowed = "everything_allowed",
        AllowedPathMissing = "allowed_path_missing",
        AllowedPathIsDirectory = "allowed_path_is_directory",
        AllowedPathCovered = "allowed_path_covered",
        SensitivePathReachable = "sensitive_path_reachable",
        NoVerification = "no_verification",
        NoTestsCounted = "no_tests_counted",
        NothingFailsBefore = "nothing_fails_before",
        NoWallLimit = "no_wall_limit",
        InputUnsafe = "input_unsafe",
        InstructionUnfilled = "instruction_unfilled",
        ActionUnlisted = "action_unlisted",
        MutationModeMissing = "mutation_mode_missing",
        RiskClassRefused = "risk_class_refused",
    }
}

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, cto_contract::schemars::JsonSchema)]
#[schemars(crate = "cto_contract::schemars")]
pub struct Warning {
    pub code: WarningCode,
    /// What is the case, safe to show.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Everything there is to say about a contract on a tree, in the order of [`WarningCode`].
pub fn contract_warnings(contract: &TaskContract, tree: &ProjectTree) -> Vec<Warning> {
    let mut advice = Advice {
        contract,
        tree,
        policy: PathPolicy::new(contract),
        warnings: Vec::new(),
    };
    advice.paths();
    advice.checks();
    advice.rest();
    let mut warnings = advice.warnings;
    warnings.sort_by_key(|w| w.code);
    warnings
}

struct Advice<'a> {
    contract: &'a TaskContract,
    tree: &'a ProjectTree,
    policy: PathPolicy,
    warnings: Vec<Warning>,
}

impl Advice<'_> {
    fn warn(&mut self, code: WarningCode, message: impl Into<String>, hint: impl Into<String>) {
        self.warnings.push(Warning {
            code,
            message: message.into(),
            hint: hint.into(),
        });
    }

    fn is_allowed(&self, path: &str) -> bool {
        self.policy.scope(path.as_bytes()).0 == Scope::Allowed
    }

    fn paths(&mut self) {
        if self.contract.allowed_paths.is_empty() {
            self.warn(
                WarningCode::NothingAllowed,
                "`allowed_paths` is empty, so no lane may run",
                "name the files and directories that may change",
            );
        }
        for pattern in &self.contract.allowed_paths {
            self.allowed_pattern(pattern);
        }
        self.sensitive_paths();
    }

    fn allowed_pattern(&mut self, pattern: &PathPattern) {
        let text = pattern.as_str();
        let shown = name(text);
        if pattern.is_literal()
            && let Some((scope, _)) = implicitly_frozen(text)
            && self.is_allowed(text)
        {
            if scope == Scope::SteeringFile {
                self.warn(
                    WarningCode::SteeringFileAllowed,
                    format!(
                        "{shown} steers agents and may change: this run could instruct the next"
                    ),
                    "take it out of `allowed_paths` unless changing it is the task",
                );
            } else {
                self.warn(
                    WarningCode::RunnerFileAllowed,
                    format!("{shown} is read by a test runner and may change: the change could disable its own checks"),
                    "take it out of `allowed_paths` unless changing it is the task",
                );
            }
        }
        let lone = LonePattern::new(pattern);
        let samples = samples(text);
        if samples_of_everything().iter().all(|p| lone.matches(p)) {
            self.warn(
                WarningCode::EverythingAllowed,
                format!("{shown} allows every path of the repository"),
                "name the directories that the task is about",
            );
        }
        let found: Vec<&str> = self
            .tree
            .paths
            .iter()
            .map(String::as_str)
            .filter(|p| lone.matches(p))
            .collect();
        let possible = found.iter().copied().chain(
            samples
                .iter()
                .map(String::as_str)
                .filter(|p| lone.matches(p)),
        );
        let mut possible = possible.peekable();
        if possible.peek().is_some() && possible.all(|p| self.is_against(p)) {
            self.warn(
                WarningCode::AllowedPathCovered,
                format!("{shown} is allowed, but `forbidden_paths` and `frozen_paths` take all of it back"),
                "forbidden wins over allowed: `cto why PATH` names the pattern",
            );
        } else if found.is_empty() && self.tree.complete {
            self.unmatched(pattern);
        }
    }

    /// True when a pattern of the contract speaks against the path; a file that is frozen by itself does not count.
    fn is_against(&self, path: &str) -> bool {
        match self.policy.scope(path.as_bytes()).0 {
            Scope::Forbidden | Scope::Frozen | Scope::NeverAllowable => true,
            Scope::Allowed
            | Scope::NotAllowed
            | Scope::RunnerFile
            | Scope::SteeringFile
            | Scope::NotUtf8 => false,
        }
    }

    /// A pattern that matches no file: for new files it is in order when the directory is there.
    fn unmatched(&mut self, pattern: &PathPattern) {
        let text = pattern.as_str();
        let shown = name(text);
        if pattern.is_literal() {
            if self.tree.has_below(text) {
                let with_slash = name(&format!("{text}/"));
                self.warn(
                    WarningCode::AllowedPathIsDirectory,
                    format!("{shown} is a directory; as it stands it allows no file in it"),
                    format!("write {with_slash} for everything below"),
                );
            } else {
                self.warn(
                    WarningCode::AllowedPathMissing,
                    format!("{shown} is not in the tree"),
                    "right if the task is to create it; else look for a slip of the pen",
                );
            }
            return;
        }
        let fixed = fixed_directory(text);
        if !fixed.is_empty() && !self.tree.has_below(fixed) {
            self.warn(
                WarningCode::AllowedPathMissing,
                format!(
                    "{shown} matches no file, and there is no directory {}",
                    name(fixed)
                ),
                "right if the task is to create it; else look for a slip of the pen",
            );
        }
    }

    /// A default is reachable when a path that it means may change: one of the tree at any depth, or a new one at the top.
    fn sensitive_paths(&mut self) {
        let in_tree = |deep: &LonePattern| {
            let mut found = self.tree.paths.iter().filter(|p| deep.matches(p));
            found.any(|p| self.is_allowed(p))
        };
        let reachable: Vec<&str> = FORBIDDEN_DEFAULTS
            .iter()
            .copied()
            .zip(DEEP_DEFAULTS.iter())
            .filter(|(default, (_, deep))| {
                in_tree(deep)
                    || samples(without_depth(default))
                        .iter()
                        .any(|p| self.is_allowed(p))
            })
            .map(|(default, _)| default)
            .collect();
        if !reachable.is_empty() {
            self.warn(
                WarningCode::SensitivePathReachable,
                format!("these may change and seldom should: {}", names(&reachable)),
                "add them to `forbidden_paths`",
            );
        }
    }

    fn checks(&mut self) {
        let contract = self.contract;
        let commands = || contract.verification_commands.iter();
        self.scripts();
        if contract.verification_commands.is_empty() {
            if contract.no_test_rationale.is_none() {
                self.warn(
                    WarningCode::NoVerification,
                    "no command checks the change, and nothing says why",
                    "add `verification_commands`, or say why there are none in `no_test_rationale`",
                );
            }
            return;
        }
        self.tests();
        let checks: Vec<Check<'_>> = all_checks(contract).collect();
        let uncounted: Vec<&str> = checks
            .iter()
            .filter(|check| {
                !check.counts_tests() && OracleUse::of(check.text()) != OracleUse::Program
            })
            .map(Check::text)
            .collect();
        if !uncounted.is_empty() {
            self.warn(
                WarningCode::NoTestsCounted,
                format!(
                    "{} proves its exit code alone: no test is counted and none can be planted, so the claim is `self_reported`, and a check that runs no test passes too; with `min_tests` it can't pass at all",
                    names(&uncounted)
                ),
                "call the test runner directly, or let it write JUnit and name the file in `expect.junit`; else leave out `min_tests`",
            );
        }
        if !commands().any(|c| c.must_fail_before) {
            self.warn(
                WarningCode::NothingFailsBefore,
                "every check may pass without the change, so a pass does not show that the task was done",
                "set `must_fail_before: true` on a check that fails today",
            );
        }
    }

    /// Scripts that commands name, and that the change may rewrite.
    fn scripts(&mut self) {
        let verification = self.contract.verification_commands.iter().map(|c| &c.run);
        let all = verification.chain(&self.contract.setup_commands);
        let mut seen = std::collections::BTreeSet::new();
        for command in all {
            for script in scripts::named_files(command, self.tree) {
                if self.is_allowed(&script) && seen.insert(script.clone()) {
                    self.warn(
                        WarningCode::ScriptNotFrozen,
                        format!(
                            "{} is started by {} and may change: the change could rewrite its own check",
                            name(&script),
                            name(command)
                        ),
                        "add it to `frozen_paths`",
                    );
                }
            }
        }
    }

    fn tests(&mut self) {
        let open: Vec<&str> = self
            .tree
            .paths
            .iter()
            .map(String::as_str)
            .filter(|p| is_of_tests(p) && self.is_allowed(p))
            .collect();
        if !open.is_empty() {
            self.warn(
                WarningCode::TestsNotFrozen,
                format!(
                    "tests may change along with what they test: {}",
                    names(&open)
                ),
                "add them to `frozen_paths` unless writing tests is the task",
            );
        }
    }

    fn rest(&mut self) {
        let contract = self.contract;
        if contract.limits.wall_seconds.is_none() {
            self.warn(
                WarningCode::NoWallLimit,
                "`limits.wall_seconds` is not set, so the harness's default holds",
                "say how long the task may take",
            );
        }
        for input in &contract.inputs {
            if let Some(danger) = inputs::danger(&input.from) {
                self.warn(
                    WarningCode::InputUnsafe,
                    format!("input {} {danger}", name(&input.from.to_string())),
                    "name the one directory that the tests need",
                );
            }
        }
        if contract.instruction.trim() == UNFILLED_INSTRUCTION.trim() {
            self.warn(
                WarningCode::InstructionUnfilled,
                "`instruction` is still the text that `cto init` wrote",
                "say what the change must do",
            );
        }
        let unlisted = contract.unlisted_actions();
        if !unlisted.is_empty() {
            let unlisted: Vec<&str> = unlisted.into_iter().map(|a| a.as_str()).collect();
            self.warn(
                WarningCode::ActionUnlisted,
                format!(
                    "neither forbidden nor permitted: {}; no lane may run",
                    names(&unlisted)
                ),
                "list all ten under `forbidden_actions`",
            );
        }
        if contract.mutation_mode.is_none() {
            self.warn(
                WarningCode::MutationModeMissing,
                "`mutation_mode` is not set, so no lane may run",
                "`copied-fixture` works on a copy and lands nothing",
            );
        }
        if contract.risk_class.is_protected() {
            self.warn(
                WarningCode::RiskClassRefused,
                format!(
                    "risk class `{}` is refused wherever it is named",
                    contract.risk_class
                ),
                "use `copied` for a copy of your own repository",
            );
        }
    }
}

/// A name of others in a sentence.
fn name(text: &str) -> String {
    format!("`{}`", shorten(text, NAME_SHOWN_CHARS))
}

fn names(list: &[&str]) -> String {
    let shown: Vec<String> = list.iter().take(NAMES_SHOWN_MAX).map(|n| name(n)).collect();
    let rest = list.len().saturating_sub(NAMES_SHOWN_MAX);
    if rest == 0 {
        shown.join(", ")
    } else {
        format!("{} and {rest} more", shown.join(", "))
    }
}

/// The directories of a pattern before its first metacharacter.
fn fixed_directory(pattern: &str) -> &str {
    let fixed = pattern
        .find(['*', '?', '[', '\\'])
        .map_or(pattern, |at| &pattern[..at]);
    fixed
        .rsplit_once('/')
        .map_or("", |(directory, _)| directory)
}

/// A component that nobody's pattern means.
const MADE_UP: &str = "cto~made~up";

fn samples_of_everything() -> [String; 3] {
    [
        MADE_UP.to_owned(),
        format!("{MADE_UP}/{MADE_UP}"),
        format!("{MADE_UP}/{MADE_UP}/.{MADE_UP}.x"),
    ]
}

/// Paths that a pattern would match if they were there, shallow and deep; the caller checks that they do.
fn samples(pattern: &str) -> Vec<String> {
    if let Some(directory) = pattern.strip_suffix('/') {
        let inside = format!("{}/{MADE_UP}", plain(directory, MADE_UP));
        return vec![inside.clone(), format!("{inside}/{MADE_UP}")];
    }
    let deep = format!("{MADE_UP}/{MADE_UP}");
    let mut out = vec![plain(pattern, MADE_UP)];
    if pattern.contains("**") {
        out.push(plain(&pattern.replace("**", &deep), MADE_UP));
    }
    out
}

/// Puts `name` in the place of every wildcard.
fn plain(pattern: &str, name: &str) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            '*' => {
                while chars.next_if_eq(&'*').is_some() {}
                out.push_str(name);
            }
            '?' => out.push('~'),
            c => out.push(c),
        }
    }
    out
}
