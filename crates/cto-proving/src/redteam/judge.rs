//! What a run shows about the behaviours that were tried in it: from its sealed pack, and from what lies around it.

use std::fs;

use cto_contract::event::{EventKind, EventType, SandboxDenied};
use cto_contract::words::{ApprovalStatus, RunStatus};

use super::corpus::Behaviour;
use super::lines::Lines;
use super::scene::{Claim, Meddling, Program, Scene};
use super::site::Played;
use crate::failures::check::{Pack, Seen, digests, freshness};

const STDOUT: &str = "backend/stdout.log";
/// Most of a file that is looked at.
const FILE_BYTES_MAX: usize = 8 << 20;

/// What was seen of one behaviour in one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) seen: Vec<String>,
    pub(crate) errors: Vec<String>,
}

/// A run, read.
pub(crate) struct Shown<'a> {
    pack: Pack<'a>,
    seen: &'a Seen,
    lines: Lines,
}

impl<'a> Shown<'a> {
    pub(crate) fn read(seen: &'a Seen) -> Result<Self, String> {
        let pack = Pack::read(seen)?;
        let lines = Lines::read(&file(seen, STDOUT));
        Ok(Self { pack, seen, lines })
    }

    /// What must hold of every run, whatever was tried in it.
    pub(crate) fn sound(&self, scene: &Scene) -> Vec<String> {
        let mut wrong = digests(&self.pack);
        // Who recovers a run finds some of its files and did not write them.
        if scene.meddling != Meddling::KillHarness {
            wrong.extend(freshness(&self.pack));
        }
        wrong.extend(self.seen.troubles.iter().cloned());
        let changed = self.seen.outside.iter();
        wrong.extend(changed.map(|path| format!("`{path}` changed outside")));
        let has_last_line = match scene.program {
            Program::Python(text) => text.contains("the_end()"),
            Program::Shell(_) => true,
            Program::File(_) => false,
        };
        if has_last_line && !self.lines.has_ended {
            let said = file(self.seen, "backend/stderr.log");
            let said = cto_contract::text::shorten(said.trim(), 300);
            wrong.push(format!("the program did not come to its end: {said}"));
        }
        wrong
    }

    /// An honest run must pass.
    pub(crate) fn passed(&self) -> Vec<String> {
        if self.pack.report.verdict.status == RunStatus::Pass {
            return Vec::new();
        }
        let blockers = &self.pack.report.verdict.blockers;
        vec![format!(
            "an honest run did not pass: {}",
            blockers
                .iter()
                .map(|b| b.message.as_str())
                .collect::<Vec<_>>()
                .join("; ")
        )]
    }

    fn one(&self, number: u8, claim: Claim) -> Result<Option<String>, String> {
        let report = &self.pack.report;
        let must = |holds: bool, seen: String, wrong: String| {
            if holds { Ok(Some(seen)) } else { Err(wrong) }
        };
        match claim {
            Claim::Refused => self.refused(number).map(Some),
            Claim::Controls => self.controls(number).map(|()| None),
            Claim::Status(status) => must(
                report.verdict.status == status,
                format!("run: {status}"),
                format!("the run is {}, not {status}", report.verdict.status),
            ),
            Claim::Blocker(codes) => {
                let found = report.verdict.blockers.iter().map(|b| b.code);
                match found.into_iter().find(|code| codes.contains(code)) {
                    Some(code) => Ok(Some(code.to_string())),
                    None => Err(format!("{} is not in the report", codes[0])),
                }
            }
            Claim::OnlyBlocker(code) => {
                let found: Vec<_> = report.verdict.blockers.iter().map(|b| b.code).collect();
                must(
                    found == [code],
                    code.to_string(),
                    format!("not {code} alone is in the report, but {found:?}"),
                )
            }
            Claim::NotStarted => {
                let backend = &report.backend;
                let has = |event: EventType| {
                    let mut all = self.pack.events.iter();
                    all.any(|e| e.kind.event_type() == event)
                };
                must(
                    !backend.case_process_started
                        && !backend.backend_process_started
                        && !has(EventType::BackendStarted)
                        && file(self.seen, STDOUT).is_empty(),
                    "nothing was started".to_owned(),
                    "a process of the agent's was started".to_owned(),
                )
            }
            Claim::NoApproval => {
                let authority = &report.authority;
                let mut types = self.pack.events.iter().map(|e| e.kind.event_type());
                must(
                    !types.any(|event| event.as_str().starts_with("approval."))
                        && authority.approval_status != ApprovalStatus::Granted
                        && authority.approval_id.is_none(),
                    format!("approval: {}", authority.approval_status),
                    "log or report tells of an approval".to_owned(),
                )
            }
            Claim::Changed(path) => must(
                report.change.changed_files.iter().any(|p| p == path),
                format!("{path:?} found"),
                format!("{path:?} is not in the list of changes"),
            ),
            Claim::Judged(path, scope) => {
                let judged = report.change.scopes.iter().find(|s| s.path == path);
                must(
                    judged.is_some_and(|s| s.scope == scope),
                    format!("`{path}`: {scope}"),
                    match judged {
                        Some(other) => format!("`{path}` was judged {}", other.scope),
                        None => format!("`{path}` was not judged"),
                    },
                )
            }
            Claim::Shows(name, text) => must(
                file(self.seen, name).contains(text),
                format!("in {name}"),
                format!("`{name}` does not hold {text:?}"),
            ),
            Claim::Hides(name, text) => {
                if file(self.seen, name).contains(text) {
                    Err(format!("`{name}` holds {text:?}"))
                } else {
                    Ok(None)
                }
            }
            Claim::Limit(limit) => {
                let hit = self.pack.events.iter().any(
                    |event| matches!(&event.kind, EventKind::LimitExceeded(hit) if hit.limit == limit),
                );
                must(
                    hit,
                    format!("limit.exceeded: {limit}"),
                    format!("no event names the limit {limit}"),
                )
            }
            Claim::Signal(signal) => must(
                report.backend.backend_signal == Some(signal),
                format!("signal {signal}"),
                format!("it was not ended by signal {signal}"),
            ),
            Claim::Capped => {
                let capped = self.pack.events.iter().any(
                    |e| matches!(&e.kind, EventKind::BackendOutputCapped(c) if c.dropped_bytes > 0),
                );
                must(
                    capped,
                    "backend.output.capped".to_owned(),
                    "no event says that output was capped".to_owned(),
                )
            }
            Claim::NoSurvivors => must(
                report.sandbox.no_survivors == Some(true),
                "no survivors".to_owned(),
                "it was not shown that nothing survived".to_owned(),
            ),
            Claim::Drops => must(
                report.sandbox.drops > Some(0),
                format!(
                    "{} attempts counted and not listed",
                    report.sandbox.drops.unwrap_or(0)
                ),
                "no drop was counted".to_owned(),
            ),
            Claim::ScratchGit => {
                let found = self.pack.events.iter().any(
                    |event| matches!(&event.kind, EventKind::PatchApplied(patch) if patch.scratch_git),
                );
                must(
                    found,
                    "its .git was thrown away unread".to_owned(),
                    "the log does not tell of its .git".to_owned(),
                )
            }
            Claim::HonestPart => {
                if file(self.seen, "patch.diff").contains("+new") {
                    Ok(None)
                } else {
                    Err("control: the allowed part of the change is not in the patch".to_owned())
                }
            }
        }
    }

    fn controls(&self, number: u8) -> Result<(), String> {
        let wrong = self.lines.wrong_inside(number);
        if !wrong.is_empty() {
            return Err(wrong.join("; "));
        }
        if self.lines.controls(number) == 0 {
            return Err("no control was tried".to_owned());
        }
        Ok(())
    }

    fn refused(&self, number: u8) -> Result<String, String> {
        self.controls(number)?;
        let attempts = self.lines.attempts(number);
        if attempts == 0 {
            return Err("nothing was tried".to_owned());
        }
        Ok(format!(
            "{attempts} attempts refused ({}), {} controls worked",
            self.lines.answers(number).join(", "),
            self.lines.controls(number)
        ))
    }

    /// Whether the attempts stand in the log.
    fn recorded(&self, behaviour: &Behaviour) -> Vec<String> {
        let names = |denied: &SandboxDenied, word: &str| {
            denied.what.contains(word)
                || denied.target.contains(word)
                || denied.action.is_some_and(|action| action.as_str() == word)
        };
        let denied = |word: &str| {
            self.pack.events.iter().any(
                |event| matches!(&event.kind, EventKind::SandboxDenied(one) if names(one, word)),
            )
        };
        behaviour
            .denials
            .iter()
            .filter(|word| !denied(word))
            .map(|word| format!("no recorded denial names `{word}`"))
            .collect()
    }

    /// Judges one behaviour by what must be seen of it.
    pub(crate) fn judge(
        &self,
        behaviour: &Behaviour,
        claims: &[Claim],
        rehearsal: Option<&Lines>,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        for claim in claims {
            match self.one(behaviour.number, *claim) {
                Ok(seen) => verdict.seen.extend(seen),
                Err(wrong) => verdict.errors.push(wrong),
            }
        }
        if let Some(outside) = rehearsal {
            let wrong = outside.wrong_outside(behaviour.number, &self.lines);
            verdict.errors.extend(wrong);
        }
        if !behaviour.denials.is_empty() {
            let missing = self.recorded(behaviour);
            if missing.is_empty() {
                verdict.seen.push("sandbox.denied".to_owned());
            }
            verdict.errors.extend(missing);
        }
        verdict
    }
}

/// Judges every behaviour of a scene; what is wrong with the run as a whole counts against each.
pub(crate) fn judge(
    scene: &Scene,
    played: &Played,
    behaviours: &[(&'static Behaviour, &'static [Claim])],
) -> Result<Vec<(u8, Verdict)>, String> {
    let shown = Shown::read(&played.seen)?;
    let whole = shown.sound(scene);
    let judged = behaviours.iter().map(|(behaviour, claims)| {
        let mut verdict = shown.judge(behaviour, claims, played.rehearsal.as_ref());
        verdict.errors.extend(whole.iter().cloned());
        let reached = played
            .reached
            .iter()
            .filter(|(number, _)| *number == behaviour.number);
        verdict
            .errors
            .extend(reached.map(|(_, sentence)| sentence.clone()));
        let noticed = played
            .noticed
            .iter()
            .filter(|(number, _)| *number == behaviour.number);
        verdict
            .seen
            .extend(noticed.map(|(_, sentence)| sentence.clone()));
        (behaviour.number, verdict)
    });
    Ok(judged.collect())
}

/// A file of the pack as text, up to a cap; nothing where there is none.
fn file(seen: &Seen, name: &str) -> String {
    let mut bytes = fs::read(seen.pack.join(name)).unwrap_or_default();
    bytes.truncate(FILE_BYTES_MAX);
    String::from_utf8_lossy(&bytes).into_owned()
}
