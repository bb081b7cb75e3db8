//! The seal: report, list of digests, signed statement, in that order; the statement's file comes last, by rename.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::path::Path;

use cto_contract::artifact::{
    ATTESTATION, ATTESTATION_DRAFT, EVENTS, REPORT_JSON, REQUIRED, SHA256SUMS,
};
use cto_contract::attestation::{
    PAYLOAD_TYPE, Predicate, PredicateType, Statement, StatementType, Subject, SubjectDigest,
};
use cto_contract::ids::Digest;
use cto_contract::report::Report;
use cto_contract::verify::VerifyError;
use cto_contract::words::NeverActive;

use crate::canonical::{CanonicalError, digest_of, sha256, to_canonical};
use crate::chain::{ChainError, Log};
use crate::dsse::{envelope_bytes, seal_envelope};
use crate::key::SigningKey;
use crate::pack::PackDir;
use crate::read::{Content, read_all};
use crate::sums::write_sums;
use crate::writer::{WriteError, remove, rename, sync_directory, sync_listing, write_new};

/// What is sealed, besides the files that are already in the directory.
#[derive(Debug)]
pub struct SealInput<'a> {
    /// The report. Its `artifact_paths` and `artifact_digests` are filled in here; its `freshness` must already have
    /// an entry for every file of the directory and for `report.json`.
    pub report: Report,
    pub key: &'a SigningKey,
}

/// A sealed pack.
#[derive(Debug, Clone, PartialEq)]
pub struct Sealed {
    /// SHA-256 of `SHA256SUMS`.
    pub pack_digest: Digest,
    /// SHA-256 of the attestation's file.
    pub attestation_digest: Digest,
    /// The report as it stands in the pack.
    pub report: Report,
    pub files: u64,
    pub bytes: u64,
}

/// Why a pack could not be sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The directory can't be opened.
    #[error("could not open the pack `{path}`")]
    Open {
        path: String,
        source: std::io::Error,
    },
    /// A pack is sealed exactly once.
    #[error("the pack `{0}` is sealed already")]
    AlreadySealed(String),
    /// A required artifact is not there.
    #[error("the required artifact `{0}` is missing")]
    Missing(&'static str),
    /// A link, a special file or something unreadable lies in the pack.
    #[error("`{}`: {}", .0.file.as_deref().unwrap_or("."), .0.message)]
    Unfit(VerifyError),
    /// The report does not say when this file was written.
    #[error("the report has no freshness for `{0}`")]
    Freshness(String),
    /// The log is no chain.
    #[error("the log is broken")]
    Log(#[from] ChainError),
    /// The log is of another run than the report.
    #[error("the log is of run `{log}`, the report of `{report}`")]
    OtherRun { log: String, report: String },
    /// A value has no canonical form.
    #[error("the report or the statement has no canonical form")]
    Canonical(#[from] CanonicalError),
    /// The report does not serialise.
    #[error("the report cannot be written as JSON")]
    Report(#[from] serde_json::Error),
    /// The system refused to write.
    #[error("the pack could not be written")]
    Write(#[from] WriteError),
}

/// Seals a pack whose other artifacts, `report.md` included, are already there.
///
/// What an interrupted seal left (`report.json`, `SHA256SUMS`) is written anew: only the attestation makes a pack
/// sealed. When this returns, everything is durable.
pub fn seal(pack_dir: &Path, input: SealInput<'_>) -> Result<Sealed, SealError> {
    let shown = pack_dir.display().to_string();
    let pack = PackDir::open(pack_dir).map_err(|source| SealError::Open {
        path: shown.clone(),
        source,
    })?;
    let SealInput { mut report, key } = input;
    match pack.open_path(ATTESTATION) {
        Ok(_) => return Err(SealError::AlreadySealed(shown)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(source) => {
            return Err(SealError::Open {
                path: format!("{shown}/{ATTESTATION}"),
                source,
            });
        }
    }
    for left_over in [ATTESTATION_DRAFT, SHA256SUMS, REPORT_JSON] {
        remove(pack.as_fd(), left_over)?;
    }

    let (log, mut digests) = digest_artifacts(&pack)?;
    if log.run_id != report.run.run_id {
        return Err(SealError::OtherRun {
            log: log.run_id.to_string(),
            report: report.run.run_id.to_string(),
        });
    }
    let report_bytes = complete_report(&mut report, &digests)?;
    digests.insert(REPORT_JSON.to_owned(), sha256(&report_bytes));
    write_new(pack.as_fd(), REPORT_JSON, &report_bytes)?;

    let sums = write_sums(&digests);
    let pack_digest = sha256(&sums);
    write_new(pack.as_fd(), SHA256SUMS, &sums)?;

    let statement = statement(&report, &log, &pack_digest, key);
    let envelope = seal_envelope(PAYLOAD_TYPE, &to_canonical(&statement)?, key);
    let attestation = envelope_bytes(&envelope)?;
    write_new(pack.as_fd(), ATTESTATION_DRAFT, &attestation)?;

    // Whoever sees the attestation after a crash must see all that it speaks of, so the rename comes after the sync.
    let listing = pack.walk();
    if let Some(problem) = listing.problems.into_iter().next() {
        return Err(SealError::Unfit(problem));
    }
    let listing = crate::pack::Listing {
        problems: Vec::new(),
        ..listing
    };
    sync_listing(&pack, &listing)?;
    rename(pack.as_fd(), ATTESTATION_DRAFT, ATTESTATION)?;
    sync_directory(pack.as_fd())?;
    Ok(Sealed {
        pack_digest,
        attestation_digest: sha256(&attestation),
        report,
        files: listing.files.len() as u64,
        bytes: listing.bytes,
    })
}

/// Digests of everything but the three files that the seal writes.
fn digest_artifacts(pack: &PackDir) -> Result<(Log, BTreeMap<String, Digest>), SealError> {
    let listing = pack.walk();
    if let Some(problem) = listing.problems.into_iter().next() {
        return Err(SealError::Unfit(problem));
    }
    for required in REQUIRED {
        let ours = matches!(required, REPORT_JSON | SHA256SUMS | ATTESTATION);
        if !ours && !listing.files.iter().any(|f| f.path == required) {
            return Err(SealError::Missing(required));
        }
    }
    let mut digests = BTreeMap::new();
    let mut log = None;
    for (file, read) in listing.files.iter().zip(read_all(pack, &listing.files)) {
        let read = read.map_err(SealError::Unfit)?;
        if let Content::Log(result) = read.content {
            log = Some((*result)?);
        }
        digests.insert(file.path.clone(), read.digest);
    }
    Ok((log.ok_or(SealError::Missing(EVENTS))?, digests))
}

/// Fills in the index and returns the bytes of `report.json`.
fn complete_report(
    report: &mut Report,
    digests: &BTreeMap<String, Digest>,
) -> Result<Vec<u8>, SealError> {
    let mut paths: Vec<String> = digests.keys().cloned().collect();
    paths.extend([REPORT_JSON, SHA256SUMS, ATTESTATION].map(str::to_owned));
    paths.sort_unstable();
    let section = &mut report.artifacts;
    for path in digests.keys().map(String::as_str).chain([REPORT_JSON]) {
        if !section.freshness.contains_key(path) {
            return Err(SealError::Freshness(path.to_owned()));
        }
    }
    section.artifact_paths = paths;
    section.artifact_digests = digests.clone();
    let own = digest_of(report)?;
    report
        .artifacts
        .artifact_digests
        .insert(REPORT_JSON.to_owned(), own);
    let mut bytes = serde_json::to_vec_pretty(report)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn statement(report: &Report, log: &Log, pack_digest: &Digest, key: &SigningKey) -> Statement {
    Statement {
        statement_type: StatementType,
        subject: vec![Subject {
            name: SHA256SUMS.to_owned(),
            digest: SubjectDigest {
                sha256: pack_digest.clone(),
            },
        }],
        predicate_type: PredicateType,
        predicate: Predicate {
            run_id: report.run.run_id.clone(),
            case_id: report.run.case_id.clone(),
            backend: report.backend.backend,
            nonce: report.run.nonce.clone(),
            status: report.verdict.status,
            event_chain_head: log.head.clone(),
            events: log.events.len() as u64,
            contract_digest: report.authority.contract_digest.clone(),
            identity_digest: report.backend.identity_digest.clone(),
            approval_id: report.authority.approval_id.clone(),
            patch_tree_id: report.change.patch_tree_id.clone(),
            run_finished_at: report.run.run_finished_at,
            conformance: report.run.conformance,
            harness_public_key: key.public_base64(),
            harness_version: report.run.harness_version.clone(),
            runtime_default_activation: NeverActive,
        },
    }
}
