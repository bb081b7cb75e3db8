//! Which rule decides about a path or an action, in words. The answer is the policy's own; nothing is decided here.

use cto_contract::event::Scope;
use cto_contract::ids::CaseId;
use cto_contract::outputs::{SubjectKind, WhyOutput, WhyTag};
use cto_contract::task::TaskContract;
use cto_contract::text::{one_line, path_text};
use cto_contract::wire_enum;
use cto_contract::words::Action;

use crate::paths::PathPolicy;

wire_enum! {
    /// Where a contract puts an action.
    pub enum Standing {
        Forbidden = "forbidden",
        Permitted = "permitted",
        /// Neither: the contract is incomplete and no lane may run on it.
        Unlisted = "unlisted",
    }
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Path(Scope),
    Action(Standing),
}

impl Verdict {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Path(scope) => scope.as_str(),
            Self::Action(standing) => standing.as_str(),
        }
    }

    /// True when the change or the action would be in order.
    pub const fn is_allowed(self) -> bool {
        match self {
            Self::Path(Scope::Allowed) | Self::Action(Standing::Permitted) => true,
            Self::Path(
                Scope::NotAllowed
                | Scope::Forbidden
                | Scope::Frozen
                | Scope::RunnerFile
                | Scope::SteeringFile
                | Scope::NeverAllowable
                | Scope::NotUtf8,
            )
            | Self::Action(Standing::Forbidden | Standing::Unlisted) => false,
        }
    }
}

/// The answer: what is decided, by what, and what would change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// The path or the action.
    pub subject: String,
    pub verdict: Verdict,
    /// The pattern or rule that decided.
    pub decided_by: String,
    /// The decision as a sentence, safe to show.
    pub sentence: String,
    pub hint: Option<String>,
}

impl Why {
    /// The answer as a document, about the contract of that task.
    pub fn document(self, task_id: CaseId) -> WhyOutput {
        WhyOutput {
            schema_version: WhyTag,
            kind: match self.verdict {
                Verdict::Path(_) => SubjectKind::Path,
                Verdict::Action(_) => SubjectKind::Action,
            },
            subject: self.subject,
            task_id,
            verdict: self.verdict.as_str().to_owned(),
            allowed: self.verdict.is_allowed(),
            decided_by: self.decided_by,
            sentence: self.sentence,
            hint: self.hint,
        }
    }
}

/// A subject that no rule is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAFile {
    #[error("`{0}` is absolute")]
    Absolute(String),
    #[error("`{0}` names a directory")]
    Directory(String),
}

impl NotAFile {
    /// What to do next.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Absolute(_) => "name the path as it is in the repository, such as src/app.py",
            Self::Directory(_) => "rules are about files: name one in it, there or not",
        }
    }
}

/// Says which rule decides about an action, if it is the name of one, else about a path.
pub fn why(contract: &TaskContract, subject: &[u8]) -> Result<Why, NotAFile> {
    let action = std::str::from_utf8(subject).ok();
    if let Some(action) = action.and_then(|name| name.parse::<Action>().ok()) {
        return Ok(why_action(contract, action));
    }
    let shown = || one_line(&String::from_utf8_lossy(subject));
    let mut path = subject;
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest;
    }
    if path.starts_with(b"/") {
        return Err(NotAFile::Absolute(shown()));
    }
    if path.is_empty() || path.ends_with(b"/") || path == b"." {
        return Err(NotAFile::Directory(shown()));
    }
    Ok(why_path(contract, path))
}

/// Says which rule decides about a path.
fn why_path(contract: &TaskContract, path: &[u8]) -> Why {
    let policy = PathPolicy::new(contract);
    let (scope, decided_by) = policy.scope(path);
    let subject = path_text(path);
    let name = one_line(&subject);
    let by = one_line(&decided_by);
    let rule = by.strip_prefix("rule: ").unwrap_or(&by).to_owned();
    // What the decision takes away, so that nobody wonders why the pattern he wrote does not help.
    let although = policy.allowed_by(path).map_or_else(String::new, |p| {
        format!(", although `{}` allows it", one_line(p))
    });
    let (sentence, hint) = match scope {
        Scope::Allowed => (format!("`{name}` may change: `{by}` allows it"), None),
        Scope::NotAllowed => (
            format!("`{name}` may not change: nothing under `allowed_paths` matches it"),
            Some("add it to `allowed_paths`, or a directory with a trailing `/`"),
        ),
        Scope::Forbidden => (
            format!("`{name}` may not change: `{by}` under `forbidden_paths` forbids it{although}"),
            Some("forbidden wins over allowed: take the pattern out if the path is meant"),
        ),
        Scope::Frozen => (
            format!("`{name}` may not change: `{by}` under `frozen_paths` freezes it{although}"),
            Some(
                "what judges the change stays as it is: take the pattern out if the task is to change the checks",
            ),
        ),
        Scope::RunnerFile => (
            format!("`{name}` may not change: {rule}{although}"),
            Some(
                "a file where a test runner looks for itself must be named exactly under `allowed_paths`",
            ),
        ),
        Scope::SteeringFile => (
            format!("`{name}` may not change: {rule}{although}"),
            Some("a file that steers agents must be named exactly under `allowed_paths`"),
        ),
        Scope::NeverAllowable => (
            format!("`{name}` may never change: {rule}"),
            Some("no contract can allow it"),
        ),
        Scope::NotUtf8 => (
            format!("`{name}` may not change: {rule}"),
            Some("give the file a name that is UTF-8"),
        ),
    };
    Why {
        subject,
        verdict: Verdict::Path(scope),
        decided_by,
        sentence,
        hint: hint.map(str::to_owned),
    }
}

/// Says where a contract puts an action.
fn why_action(contract: &TaskContract, action: Action) -> Why {
    // A contract that says both forbids.
    let (standing, decided_by, sentence, hint) = if contract.forbidden_actions.contains(&action) {
        (
            Standing::Forbidden,
            "forbidden_actions",
            format!(
                "`{action}` is forbidden: it stands under `forbidden_actions`; an attempt fails the run"
            ),
            None,
        )
    } else if contract.permitted_actions.contains(&action) {
        (
            Standing::Permitted,
            "permitted_actions",
            format!("`{action}` is permitted by name under `permitted_actions`"),
            None,
        )
    } else {
        (
            Standing::Unlisted,
            "rule: each of the ten actions is forbidden or permitted by name",
            format!("`{action}` is neither forbidden nor permitted, so no lane may run"),
            Some("add it to `forbidden_actions`"),
        )
    };
    Why {
        subject: action.to_string(),
        verdict: Verdict::Action(standing),
        decided_by: decided_by.to_owned(),
        sentence,
        hint: hint.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contract() -> TaskContract {
        TaskContract::read(
            "t",
            b"schema: cto.contract/v1\ntask_id: t\ntitle: t\ninstruction: t\nallowed_paths: [src/, Makefile]\n\
              forbidden_paths: ['**/*.key', 'src/old\\*/']\nfrozen_paths: [src/tests/]\nforbidden_actions: [push, merge]\n\
              permitted_actions: [merge, deploy]\n",
        )
        .unwrap()
    }

    fn path(path: &str) -> String {
        let why = why_path(&contract(), path.as_bytes());
        format!("{}; {}", why.verdict.as_str(), why.sentence)
    }

    #[test]
    fn every_layer_names_what_decided() {
        insta::assert_snapshot!(path("src/a.py"), @"allowed; `src/a.py` may change: `src/` allows it");
        insta::assert_snapshot!(path("README.md"), @"not_allowed; `README.md` may not change: nothing under `allowed_paths` matches it");
        insta::assert_snapshot!(path("src/x.key"), @"forbidden; `src/x.key` may not change: `**/*.key` under `forbidden_paths` forbids it, although `src/` allows it");
        insta::assert_snapshot!(path("src/tests/a.py"), @"frozen; `src/tests/a.py` may not change: `src/tests/` under `frozen_paths` freezes it, although `src/` allows it");
        insta::assert_snapshot!(path("src/conftest.py"), @"runner_file; `src/conftest.py` may not change: test runner file `conftest.py`, although `src/` allows it");
        insta::assert_snapshot!(path("AGENTS.md"), @"steering_file; `AGENTS.md` may not change: steering file `agents.md`");
        insta::assert_snapshot!(path("src/.git/config"), @"never_allowable; `src/.git/config` may never change: git's own directory, in any spelling");
        insta::assert_snapshot!(why_path(&contract(), b"src/\xff").sentence, @r#"`"src/\377"` may not change: a path that is not UTF-8 matches nothing"#);
    }

    #[test]
    fn an_action_is_forbidden_permitted_or_missing_and_forbidden_wins() {
        let action = |a| why_action(&contract(), a).verdict.as_str();
        assert_eq!(action(Action::Push), "forbidden");
        assert_eq!(action(Action::Merge), "forbidden", "said both ways");
        assert_eq!(action(Action::Deploy), "permitted");
        assert_eq!(action(Action::Close), "unlisted");
    }

    proptest! {
        #[test]
        fn the_answer_is_the_policys(path in proptest::collection::vec(any::<u8>(), 0..30)) {
            let why = why_path(&contract(), &path);
            let (scope, by) = PathPolicy::new(&contract()).scope(&path);
            prop_assert_eq!(why.verdict, Verdict::Path(scope));
            prop_assert_eq!(why.verdict.is_allowed(), scope == Scope::Allowed);
            prop_assert_eq!(why.decided_by, by);
            prop_assert!(!why.sentence.contains('\n'));
        }
    }
}
