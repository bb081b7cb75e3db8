//! The last look at a pack before its verdict: no file and no line of the log may hold a secret.
//!
//! What is found goes to quarantine, and a stub that names rule and digest takes its place. What leads there was written by
//! an agent, so nothing here follows a link.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use cto_contract::artifact::{
    ELIGIBILITY, EVENTS, FreshnessSource, PATCH, QUARANTINED, TASK_CONTRACT,
};
use cto_contract::event::{EventKind, LogRewritten, RunEvent};
use cto_evidence::canonical::hash_reader;
use cto_evidence::writer::{PackWriter, WriteError};
use cto_rules::secrets::{Finding, Known, clean_event, scan_output};
use cto_rules::verdicts::{ExposedFile, ExposedSecret};

use crate::artifact_times::ArtifactTimes;
use crate::compressed::scan_members;
use crate::home::{HomeError, make_private};
use crate::journal::{Journal, JournalError, Observer};

/// Bytes that are looked at at once.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes that two pieces share: more than the longest spelling of a value has.
const SHARED_BYTES: usize = 64 << 10;

/// Why the last look could not be taken. Without it nothing is sealed as clean.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScanError {
    #[error("could not read `{path}`")]
    Read { path: String, source: io::Error },
    #[error("could not put `{path}` into quarantine")]
    Quarantine { path: String, source: io::Error },
    #[error("the quarantine can't be made")]
    Home(#[from] HomeError),
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Not even the log can be written as it should be: then there is no pack.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Puts every file of the pack into quarantine that holds a secret. The log, the patch and what was scanned before the run
/// had an id are not looked at here.
pub(crate) fn scan_files(
    pack: &Path,
    quarantine: &Path,
    known: &Known,
    times: &mut ArtifactTimes,
) -> Result<Vec<ExposedFile>, ScanError> {
    let writer = PackWriter::open(pack)?;
    let mut exposed = Vec::new();
    for file in writer.dir().walk().files {
        let path = file.path;
        if [EVENTS, PATCH, TASK_CONTRACT, ELIGIBILITY].contains(&path.as_str()) {
            continue;
        }
        let read = |source| ScanError::Read {
            path: path.clone(),
            source,
        };
        let opened = writer.dir().open_path(&path).map_err(read)?;
        let Some(found) = scan_reader(opened, known).map_err(read)? else {
            continue;
        };
        let opened = writer.dir().open_path(&path).map_err(read)?;
        let (digest, _) = hash_reader(opened).map_err(read)?;
        let opened = writer.dir().open_path(&path).map_err(read)?;
        // On a full disk the file is lost rather than left in the pack.
        let kept = match put_away(opened, quarantine, &path) {
            Ok(()) => "",
            Err(_) => ", and it could not be kept",
        };
        writer.remove(&path)?;
        let stub = format!(
            "{QUARANTINED}: rule {}, sha256 {digest}{kept}\n",
            found.rule
        );
        writer.write_new(&path, stub.as_bytes())?;
        times.note(&path, FreshnessSource::Written);
        exposed.push(ExposedFile {
            path,
            secret: ExposedSecret {
                rule: found.rule,
                line: found.line,
            },
        });
    }
    Ok(exposed)
}

/// The first secret in a stream, read in pieces that overlap.
fn scan_reader(mut from: File, known: &Known) -> io::Result<Option<Finding>> {
    let mut piece = Vec::with_capacity(PIECE_BYTES + SHARED_BYTES);
    let mut lines_before = 0;
    loop {
        let fresh = (&mut from)
            .take(PIECE_BYTES as u64)
            .read_to_end(&mut piece)?;
        if fresh == 0 {
            return Ok(None);
        }
        let plain = scan_output(&piece, known).into_iter().next();
        if let Some(found) = plain.or_else(|| scan_members(&piece, known)) {
            return Ok(Some(Finding {
                line: found.line + lines_before,
                ..found
            }));
        }
        let past = piece.len().saturating_sub(SHARED_BYTES);
        lines_before += piece[..past].iter().filter(|b| **b == b'\n').count();
        piece.drain(..past);
    }
}

/// Copies a file to quarantine, durably.
fn put_away(mut from: File, quarantine: &Path, path: &str) -> Result<(), ScanError> {
    let failed = |source| ScanError::Quarantine {
        path: path.to_owned(),
        source,
    };
    let to = quarantine.join(path);
    make_private(to.parent().unwrap_or(quarantine))?;
    let mut copy = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&to)
        .map_err(failed)?;
    io::copy(&mut from, &mut copy).map_err(failed)?;
    copy.flush().and_then(|()| copy.sync_data()).map_err(failed)
}

/// Writes the log again without the secrets that are in it, and says so in its next line. False when it holds none.
pub(crate) fn scan_log(
    journal: &mut Journal,
    quarantine: &Path,
    known: &Known,
    observer: Observer<'_>,
) -> Result<bool, ScanError> {
    let mut kinds: Vec<EventKind> = Vec::with_capacity(journal.events().len());
    let (mut rule, mut lines) = (None, 0);
    for RunEvent { kind, .. } in journal.events() {
        match clean_event(kind, known).map_err(JournalError::from)? {
            Some(cleaned) => {
                rule.get_or_insert(cleaned.rule);
                lines += 1;
                kinds.push(cleaned.kind);
            }
            None => kinds.push(kind.clone()),
        }
    }
    let Some(rule) = rule else { return Ok(false) };
    let read = |source| ScanError::Read {
        path: EVENTS.to_owned(),
        source,
    };
    let old = File::open(journal.path()).map_err(read)?;
    // The log must lose the secret, kept or not.
    let _kept = put_away(old, quarantine, EVENTS);
    let old_head = journal.rewrite(kinds)?;
    journal.record(
        EventKind::LogRewritten(LogRewritten {
            rule,
            lines,
            old_head,
        }),
        observer,
    )?;
    Ok(true)
}
