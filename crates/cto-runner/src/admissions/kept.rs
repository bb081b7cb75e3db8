//! The records that runs used, kept in home by their digest.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use cto_contract::admission::{AdmissionKind, TargetAdmission};
use cto_contract::eligibility::UsedRecord;
use cto_contract::ids::Digest;
use cto_evidence::canonical::to_canonical;
use cto_rules::admission::{ModelRequest, NamedRecord, Records, Stored};

use super::DRAFT;
use crate::error_chain;
use crate::home::{self, Home};

/// Keeps the records that a run used, each under its digest.
pub(crate) fn keep(
    home: &Home,
    records: &Records,
    (request, target): (&ModelRequest, Option<&NamedRecord<TargetAdmission>>),
    used: &[UsedRecord],
) -> io::Result<()> {
    for record in used {
        let digest = &record.digest;
        let bytes = match record.kind {
            AdmissionKind::Source => canonical_of(&records.sources, digest),
            AdmissionKind::Binary => canonical_of(&records.binaries, digest),
            AdmissionKind::Model => named_or(request.file.as_ref(), &records.models, digest),
            AdmissionKind::Decision => canonical_of(&records.decisions, digest),
            AdmissionKind::Target => named_or(target, &records.targets, digest),
        };
        if let Some(bytes) = bytes {
            keep_one(home, digest, &bytes)?;
        }
    }
    Ok(())
}

/// The canonical form of the record that the environment names, else of one of the config directory.
fn named_or<T: serde::Serialize>(
    named: Option<&NamedRecord<T>>,
    records: &[Stored<T>],
    digest: &Digest,
) -> Option<Vec<u8>> {
    match named {
        Some(NamedRecord::Record(stored)) => canonical_of(std::slice::from_ref(&**stored), digest),
        Some(NamedRecord::Missing | NamedRecord::Invalid(_)) | None => {
            canonical_of(records, digest)
        }
    }
}

fn canonical_of<T: serde::Serialize>(records: &[Stored<T>], digest: &Digest) -> Option<Vec<u8>> {
    let stored = records.iter().find(|stored| stored.digest == *digest)?;
    to_canonical(&stored.record).ok()
}

/// Keeps the canonical form of a record, once.
fn keep_one(home: &Home, digest: &Digest, bytes: &[u8]) -> io::Result<()> {
    let directory = home.admissions();
    home::make_private(&directory).map_err(|e| io::Error::other(error_chain(&e)))?;
    let path = directory.join(format!("{digest}.json"));
    if path.exists() {
        return Ok(());
    }
    let random = crate::random::<8>().map_err(io::Error::other)?;
    let draft = directory.join(format!("{DRAFT}{}", cto_contract::ids::to_hex(&random)));
    write_new(&draft, bytes)?;
    fs::rename(&draft, &path)
}

/// Writes a file that is not there yet, durably.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
