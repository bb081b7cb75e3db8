//! Approvals of another run, put into a sealed pack: each must be found by whoever verifies it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_contract::approval::RequestId;
use cto_contract::artifact::{ATTESTATION, ELIGIBILITY, EVENTS, REPORT_JSON};
use cto_contract::eligibility::{Derived, Gate, GateOutcome};
use cto_contract::event::{Actor, Approval, ApprovalConsumed, EventKind};
use cto_contract::ids::Nonce;
use cto_contract::report::Report;
use cto_contract::time::Utc;
use cto_contract::trust::TrustedKey;
use cto_contract::verify::VerifyCode;
use cto_contract::words::{
    ApprovalStatus, Custody, MutationMode, OutcomeState, Presence, RunStatus,
};
use cto_evidence::canonical::{decision_id, to_canonical};
use cto_evidence::chain::{LineChain, Log, read_log};
use cto_evidence::key::SigningKey;
use cto_evidence::seal::{SealInput, seal};
use cto_evidence::verify::{VerifyOptions, name_in_path, verify};
use cto_evidence::writer::PackWriter;

use super::forged::{ACTOR, ID};
use super::signed_grant;

/// The run whose approvals are replayed.
const OTHER_RUN: &str = "20260101T000000Z-approval-other-aaaaaa";

/// How well a replay is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replay {
    /// The lines as they stand in the other log.
    Copied,
    /// Written into the chain of this one.
    Chained,
    /// And sealed anew, with a report that says so, by a key of the forger's.
    Sealed,
    /// And with a decision that had asked for an approval; but nobody signed it.
    Unsigned,
    /// And with a grant that the forger signed himself, for another contract.
    ForAnother,
    /// And for this very run: nothing contradicts anything any more.
    Whole,
}

/// Replays an approval into copies of a pack, as badly and as well as can be, and says what verify found of each.
pub(super) fn replay(pack: &Path, trusted: &[TrustedKey], at: &Path) -> io::Result<Answer> {
    let seed = cto_runner::random::<32>().map_err(io::Error::other)?;
    let forger = Forger {
        pack,
        trusted,
        at,
        key: SigningKey::from_random(&seed),
    };
    let report: Report = serde_json::from_slice(&fs::read(pack.join(REPORT_JSON))?)?;
    let mut answer = Answer::default();
    for way in [Replay::Copied, Replay::Chained, Replay::Sealed] {
        forger.try_one(way, &mut answer)?;
    }
    // What a block says can't be made to fit an approval; a pass that had one would look like this.
    if report.verdict.status == RunStatus::Pass {
        for way in [Replay::Unsigned, Replay::ForAnother, Replay::Whole] {
            forger.try_one(way, &mut answer)?;
        }
    }
    Ok(answer)
}

#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) codes: Vec<VerifyCode>,
    pub(super) wrong: Vec<String>,
}

struct Forger<'a> {
    pack: &'a Path,
    trusted: &'a [TrustedKey],
    at: &'a Path,
    key: SigningKey,
}

impl Forger<'_> {
    fn try_one(&self, way: Replay, answer: &mut Answer) -> io::Result<()> {
        let copy = self.forge(way)?;
        let options = VerifyOptions {
            trusted: self.trusted.to_vec(),
            asked_name: name_in_path(&copy),
            ..VerifyOptions::default()
        };
        let codes_of = |options: &VerifyOptions| -> Vec<VerifyCode> {
            let found = verify(&copy, options).errors;
            found.into_iter().map(|error| error.code).collect()
        };
        let codes = codes_of(&options);
        // To whoever trusted the forger the seal would be good: what is left is what contradicts itself.
        let trusting = codes_of(&VerifyOptions {
            extra_key: Some(self.key.public()),
            ..options.clone()
        });
        let knowing = codes_of(&VerifyOptions {
            extra_key: Some(self.key.public()),
            pinned: Some(signed_grant::known_elsewhere()?),
            ..options
        });
        let expected = match way {
            Replay::Copied => codes.contains(&VerifyCode::DigestMismatch) && codes.len() > 1,
            Replay::Chained => codes.contains(&VerifyCode::DigestMismatch),
            Replay::Sealed => {
                codes.contains(&VerifyCode::OriginUnknown)
                    && trusting.contains(&VerifyCode::EventOrder)
            }
            Replay::Unsigned | Replay::ForAnother => {
                trusting.contains(&VerifyCode::ApprovalInvalid)
            }
            // The control of the craft: but for the keys, of harness and operator, there is nothing to find.
            Replay::Whole => {
                codes == [VerifyCode::OriginUnknown]
                    && trusting.is_empty()
                    && knowing == [VerifyCode::OperatorUnknown]
            }
        };
        if !expected {
            answer.wrong.push(format!(
                "an approval that was replayed ({way:?}) gave {codes:?}, with the forger's key {trusting:?}, and to whoever knows the operators {knowing:?}"
            ));
        }
        answer.codes.extend(codes);
        Ok(())
    }

    /// Makes a copy of the pack, under its own name, with the approvals in it.
    fn forge(&self, way: Replay) -> io::Result<PathBuf> {
        let name = self.pack.file_name().unwrap_or_default();
        let copy = self.at.join(format!("{way:?}").to_lowercase()).join(name);
        copy_tree(self.pack, &copy)?;
        let log = read_log(&fs::read(copy.join(EVENTS))?).map_err(io::Error::other)?;
        let writer = PackWriter::open(&copy).map_err(io::Error::other)?;
        let rewrite = |name: &str, bytes: &[u8]| {
            writer.remove(name).map_err(io::Error::other)?;
            writer.write_new(name, bytes).map_err(io::Error::other)
        };
        if way == Replay::Copied {
            let text = fs::read(copy.join(EVENTS))?;
            let foreign = self.approvals(&log, way)?;
            return rewrite(EVENTS, &spliced(&log, &text, &foreign)?).map(|()| copy);
        }
        let mut events = with_approvals(&log, &self.approvals(&log, way)?);
        if matches!(way, Replay::Unsigned | Replay::ForAnother | Replay::Whole) {
            for (_, _, kind) in &mut events {
                if let EventKind::EligibilityDecided(data) = kind {
                    let decision = &mut data.decision;
                    for fact in decision.facts.iter_mut() {
                        if fact.gate == Gate::Approval {
                            fact.outcome = GateOutcome::Passed;
                        }
                    }
                    let derived = Derived::from_facts(&decision.facts);
                    decision.approval_required = true;
                    decision.required_gates = derived.required_gates;
                    decision.passed_gates = derived.passed_gates;
                    decision.decision_id = decision_id(&decision.basis());
                    let decision = to_canonical(&data.decision).map_err(io::Error::other)?;
                    rewrite(ELIGIBILITY, &decision)?;
                }
            }
        }
        rewrite(EVENTS, &chained(&log, events)?)?;
        if way != Replay::Chained {
            let mut report: Report = serde_json::from_slice(&fs::read(copy.join(REPORT_JSON))?)?;
            report.authority.approval_status = ApprovalStatus::Granted;
            report.authority.approval_id = Some(ID.to_owned());
            report.authority.operator_outcome = OutcomeState::Pending;
            if matches!(way, Replay::ForAnother | Replay::Whole) {
                report.authority.approval_id = Some(RequestId::from_bytes([0x58; 10]).to_string());
                report.authority.self_approved = Some(true);
                report.authority.presence = Some(Presence::Claimed);
                report.authority.custody = Some(Custody::File);
            }
            writer.remove(ATTESTATION).map_err(io::Error::other)?;
            let key = &self.key;
            seal(&copy, SealInput { report, key }).map_err(io::Error::other)?;
        }
        Ok(copy)
    }
}

impl Forger<'_> {
    /// The approvals as well as this way makes them, at the time of the line that they follow.
    fn approvals(&self, log: &Log, way: Replay) -> io::Result<Vec<Line>> {
        let before = log.events.iter().take(place_in(log)).next_back();
        let Some(at) = before.map(|event| event.ts) else {
            return Ok(Vec::new());
        };
        let made = match way {
            Replay::Copied | Replay::Chained | Replay::Sealed | Replay::Unsigned => None,
            Replay::ForAnother => signed_grant::approvals(log, &self.key, at, true)?,
            Replay::Whole => signed_grant::approvals(log, &self.key, at, false)?,
        };
        let kinds = made.unwrap_or_else(|| approvals(at));
        Ok(kinds.map(|kind| (at, Actor::Harness, kind)).into())
    }
}

/// What another run's log says of its approval.
fn approvals(at: Utc) -> [EventKind; 3] {
    let approval = || Approval {
        actor: ACTOR.to_owned(),
        scope: "*".to_owned(),
        mutation_mode: MutationMode::CopiedFixture,
        timestamp: at,
        expiry: None,
        note: None,
        request_id: None,
        asked: None,
        grant: None,
        denial: None,
    };
    [
        EventKind::ApprovalRequested(approval()),
        EventKind::ApprovalGranted(approval()),
        EventKind::ApprovalConsumed(ApprovalConsumed {
            approval_id: ID.to_owned(),
            actor: ACTOR.to_owned(),
            scope: "*".to_owned(),
            mutation_mode: MutationMode::CopiedFixture,
            timestamp: at,
            expiry: None,
            ledger_seq: 1,
        }),
    ]
}

type Line = (Utc, Actor, EventKind);

/// Where an approval stands in a log: before the backend, or before the gate that kept it out.
fn place_in(log: &Log) -> usize {
    let is_next = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::BackendStarted(_) | EventKind::BackendGateBlocked(_)
        )
    };
    let found = log.events.iter().position(|event| is_next(&event.kind));
    found.unwrap_or(log.events.len())
}

fn with_approvals(log: &Log, approvals: &[Line]) -> Vec<Line> {
    let own = log.events.iter();
    let mut lines: Vec<Line> = own.map(|e| (e.ts, e.actor, e.kind.clone())).collect();
    let place = place_in(log);
    lines.splice(place..place, approvals.iter().cloned());
    lines
}

/// Lines as a chain of this run.
fn chained(log: &Log, lines: Vec<Line>) -> io::Result<Vec<u8>> {
    let (run, case) = (log.run_id.clone(), log.case_id.clone());
    written(
        LineChain::start(&log.nonce, run, case, log.backend),
        lines.into_iter(),
    )
}

/// This log, with the lines of another run's in the middle.
fn spliced(log: &Log, text: &[u8], approvals: &[Line]) -> io::Result<Vec<u8>> {
    let nonce = Nonce::from_bytes(&[0x58; 32]);
    let run = OTHER_RUN.parse().map_err(io::Error::other)?;
    let other = LineChain::start(&nonce, run, log.case_id.clone(), log.backend);
    let foreign = written(other, approvals.iter().cloned())?;
    let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    lines.insert(place_in(log), &foreign);
    Ok(lines.concat())
}

fn written(mut chain: LineChain, lines: impl Iterator<Item = Line>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (at, actor, kind) in lines {
        bytes.extend(chain.append(at, actor, kind)?.bytes);
    }
    Ok(bytes)
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
