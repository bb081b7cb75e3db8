//! What the runs of a validation left, read from their packs. The checks look at nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cto_contract::artifact::{EVENTS, REPORT_JSON};
use cto_contract::blocker::BlockerCode;
use cto_contract::event::{EventType, RunEvent};
use cto_contract::ids::Digest;
use cto_contract::report::Report;
use cto_contract::stage_proof::{
    COPIED_REPO_PROOF, CopiedRepoProof, NO_TARGET_PROOF, NoTargetProof,
};
use cto_contract::trust::TrustedKey;
use cto_contract::words::{Lane, Stage};
use cto_evidence::verify::{VerifyOptions, name_in_path, verify};
use serde::de::DeserializeOwned;

/// One run of the command line, as it was seen from outside and in its pack.
#[derive(Debug, Clone)]
pub struct RunFacts {
    pub exit_code: Option<i32>,
    pub report: Report,
    pub events: Vec<EventType>,
    /// `backend/<lane>-gate.log` is there.
    pub has_gate_log: bool,
    pub no_target: Option<NoTargetProof>,
    pub copied_repo: Option<CopiedRepoProof>,
    /// What does not verify, a sentence each.
    pub verify_errors: Vec<String>,
    pub pack: PathBuf,
    pub pack_digest: Option<Digest>,
    /// The run of `fake` that measured it.
    pub fake: Option<Box<Self>>,
}

impl RunFacts {
    /// Reads a sealed pack.
    pub(super) fn read(
        pack: &Path,
        exit_code: Option<i32>,
        trusted: &[TrustedKey],
    ) -> Result<Self, String> {
        let report: Report = json(&pack.join(REPORT_JSON))?;
        let log = fs::read_to_string(pack.join(EVENTS)).map_err(|e| e.to_string())?;
        let events = log.lines().map(|line| {
            let event = serde_json::from_str::<RunEvent>(line);
            event.map(|event| event.kind.event_type())
        });
        let events = events
            .collect::<Result<_, _>>()
            .map_err(|e| e.to_string())?;
        let options = VerifyOptions {
            trusted: trusted.to_vec(),
            asked_name: name_in_path(pack),
            ..VerifyOptions::default()
        };
        let verified = verify(pack, &options);
        let wrong = verified.errors.iter();
        let runs = pack.parent().unwrap_or(pack);
        let fake = match &report.authority.baseline_comparison {
            None => None,
            Some(compared) => {
                let name = Path::new(&compared.fake_report);
                let name = name.parent().and_then(Path::file_name).unwrap_or_default();
                Some(Box::new(Self::read(&runs.join(name), None, trusted)?))
            }
        };
        let gate_log = format!("backend/{}-gate.log", report.backend.backend);
        Ok(Self {
            exit_code,
            events,
            has_gate_log: pack.join(gate_log).is_file(),
            no_target: optional(&pack.join(NO_TARGET_PROOF))?,
            copied_repo: optional(&pack.join(COPIED_REPO_PROOF))?,
            verify_errors: wrong
                .map(|e| format!("{}: {}", e.code, e.message))
                .collect(),
            pack: pack.to_owned(),
            pack_digest: verified.pack_digest,
            fake,
            report,
        })
    }

    pub(super) fn codes(&self) -> Vec<BlockerCode> {
        let blockers = self.report.verdict.blockers.iter();
        blockers.map(|b| b.code).collect()
    }
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let bytes = fs::read(path).map_err(|e| format!("`{}`: {e}", path.display()))?;
    serde_json::from_slice(&bytes).map_err(|e| format!("`{}`: {e}", path.display()))
}

fn optional<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    path.exists().then(|| json(path)).transpose()
}

/// What the four places that must know a lane say of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// The gate that `cto engines` names.
    pub gate: Option<String>,
    /// `cto run --help` or `cto engines` shows the lane's word.
    pub in_usage: bool,
    /// A word that is no lane is refused as wrong use.
    pub unknown_refused: bool,
    /// The default that `cto engines` names.
    pub default: Option<String>,
}

/// Everything that the checks of one stage look at.
#[derive(Debug, Clone)]
pub struct Gathered {
    pub lane: Lane,
    pub stage: Stage,
    /// By the name of the fixture; `pass` is the honest one.
    pub runs: BTreeMap<&'static str, RunFacts>,
    /// Why a run left nothing to look at.
    pub broken: BTreeMap<&'static str, String>,
    pub known: Known,
    /// What changed around the runs: program, config, repositories.
    pub outside: Vec<String>,
    /// The stage below was validated just before.
    pub below_ok: bool,
}
