//! What the recorder of a sandbox saw, in the words of the log.

use std::collections::BTreeSet;

use cto_contract::event::{DenialKind, RecorderTotals, SandboxDenied, Step};
use cto_rules::actions::{Deed, attempted};
use cto_rules::secrets::{Known, Redactor};
use cto_sandbox::{Attempt, AttemptKind, Recorded};

use crate::open_run::OpenRun;
use crate::source::Source;

/// What an attempt is judged by, and how it is spelled in a pack.
#[derive(Debug, Clone)]
pub(crate) struct DenialWords {
    /// Directories that belong to somebody else: the source, and what the configuration protects.
    pub(crate) owned: Vec<String>,
    pub(crate) secrets: Known,
    pub(crate) places: Known,
}

impl DenialWords {
    /// How attempts of this run are judged and spelled.
    pub(crate) fn of(run: &OpenRun<'_>, source: Option<&Source>) -> Self {
        let source = source.and_then(|s| s.repository.work_tree());
        let source = source.map(|top| top.to_string_lossy().into_owned());
        let protected = &run.harness.config.harness.protected_roots;
        Self {
            owned: protected.iter().cloned().chain(source).collect(),
            secrets: run.secrets.clone(),
            places: run.places.clone(),
        }
    }

    /// Returns the event for an attempt; `None` for an execution that is no attempt at anything.
    pub(crate) fn denial(&self, attempt: &Attempt, step: Step) -> Option<SandboxDenied> {
        let owned: Vec<&str> = self.owned.iter().map(String::as_str).collect();
        let is_run = attempt.what == "exec";
        let deed = match attempt.what.as_str() {
            "exec" => Deed::Run {
                program: &attempt.target,
                argv: &attempt.argv,
            },
            "connect" | "send" => Deed::Reach {
                address: &attempt.target,
            },
            _ => Deed::Change {
                path: &attempt.target,
            },
        };
        let action = attempted(deed, &owned);
        if is_run && action.is_none() {
            return None;
        }
        let target = match is_run {
            true => attempt.argv.join(" "),
            false => attempt.target.clone(),
        };
        Some(SandboxDenied {
            step,
            kind: match attempt.kind {
                AttemptKind::Denied => DenialKind::Denied,
                AttemptKind::Attempt => DenialKind::Attempt,
                AttemptKind::Killed => DenialKind::Killed,
            },
            what: attempt.what.clone(),
            target: self.clean(&target),
            process: self.clean(&attempt.process),
            count: attempt.count,
            action,
        })
    }

    /// What checks tried. Something that the checks of the baseline tried as well is the owner's, and no attempt of the change.
    pub(crate) fn of_checks(&self, before: &[Attempt], after: &[Attempt]) -> Vec<SandboxDenied> {
        let known: BTreeSet<_> = before.iter().map(deed_of).collect();
        let mut out: Vec<SandboxDenied> = Vec::new();
        for attempt in after {
            let Some(mut denial) = self.denial(attempt, Step::Verification) else {
                continue;
            };
            if known.contains(&deed_of(attempt)) {
                denial.action = None;
            }
            if !out.iter().any(|seen| seen.is_same(&denial)) {
                out.push(denial);
            }
        }
        out
    }

    fn clean(&self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        for known in [&self.secrets, &self.places] {
            let mut redactor = Redactor::new(known);
            let mut clean = Vec::new();
            redactor.push(&bytes, &mut clean);
            redactor.finish(&mut clean);
            bytes = clean;
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// What was done, whoever did it and however often.
fn deed_of(attempt: &Attempt) -> (&str, &str, &[String]) {
    (&attempt.what, &attempt.target, &attempt.argv)
}

pub(crate) fn totals(recorded: Recorded) -> RecorderTotals {
    RecorderTotals {
        attempts: recorded.attempts,
        dropped: recorded.dropped,
        blind: recorded.blind,
    }
}
