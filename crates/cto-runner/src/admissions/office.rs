//! Taking records in and listing them: what `cto admit` and `cto admissions` do.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cto_contract::admission::{Admission, AdmissionKind};
use cto_contract::document::{DOCUMENT_BYTES_MAX, DocumentError};
use cto_contract::outputs::{
    AdmissionRow, AdmissionsOutput, AdmissionsTag, AdmitOutput, AdmitTag, RecordSignature,
    RecordState,
};
use cto_contract::time::Utc;
use cto_contract::words::Lane;
use cto_ledger::{LedgerError, record_files};
use cto_rules::admission::state_of;
use cto_rules::authority::{AdmissionBook, SignedAdmission};
use cto_rules::standing::{FileState, TrustFileFault};
use serde_json::Value;

use super::{
    DIRECTORY, DRAFT, KeptRecord, RecordFile, RecordsError, is_superseded, lane_of, read_record,
    scan, write_new,
};
use crate::adapters::program_seen;
use crate::authority::{put_records_back, read_any_record};
use crate::environment::Environment;
use crate::harness::Harness;
use crate::home::{self, HomeError};

/// A record that was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    #[error("`{path}` can't be read")]
    Read { path: PathBuf, source: io::Error },
    #[error("the record is refused")]
    Invalid(#[source] DocumentError),
    #[error("`{path}` holds another record about the same")]
    Exists { path: PathBuf },
    #[error("`{signer}` signed another record about the same")]
    Signed { signer: String },
    #[error("the directory of the records can't be used")]
    Directory(#[source] HomeError),
    #[error("the records can't be looked for")]
    Records(#[from] RecordsError),
    #[error("`{path}` can't be written")]
    Write { path: PathBuf, source: io::Error },
    #[error("no random bytes from the kernel")]
    Random(#[from] getrandom::Error),
}

/// Reads the file of a record; of any kind, where none is named.
pub fn read_record_file(
    kind: Option<AdmissionKind>,
    file: &Path,
) -> Result<KeptRecord, AdmitError> {
    let bytes = read_all(file).map_err(|source| AdmitError::Read {
        path: file.to_owned(),
        source,
    })?;
    let name = file.display().to_string();
    let read = match kind {
        Some(kind) => read_record(kind, &name, &bytes),
        None => read_any_record(&name, &bytes),
    };
    read.map_err(AdmitError::Invalid)
}

/// Reads a record that a person filled in at the terminal.
pub fn read_filled_in(kind: AdmissionKind, record: &Value) -> Result<KeptRecord, AdmitError> {
    let text = format!("{record:#}");
    read_record(kind, "the record", text.as_bytes()).map_err(AdmitError::Invalid)
}

/// Refuses a record where a file holds another one about the same, before anybody is asked to sign. One that an operator
/// signed for is named too.
pub fn check_unopposed(config: &Path, kept: &KeptRecord) -> Result<(), AdmitError> {
    let about = (kept.admission.kind(), kept.admission.about());
    for file in scan(config)? {
        let Ok(held) = file.found else { continue };
        let is_about_same = (held.admission.kind(), held.admission.about()) == about;
        if is_about_same && held.digest != kept.digest {
            let path = config.join(file.name);
            return Err(AdmitError::Exists { path });
        }
    }
    Ok(())
}

/// Takes a record into the config directory without anybody's signature. Another record about the same is replaced only
/// when that is said, and never one that an operator signed.
pub fn admit_unsigned(
    config: &Path,
    kept: &KeptRecord,
    book: &AdmissionBook,
    replace: bool,
) -> Result<AdmitOutput, AdmitError> {
    let kind = kept.admission.kind();
    if is_superseded(kept, book) {
        let last = book.about(kind, &kept.admission.about());
        let signer = last.map_or_else(String::new, |last| last.statement.signer.to_string());
        return Err(AdmitError::Signed { signer });
    }
    let directory = config.join(DIRECTORY);
    home::make_private(&directory).map_err(AdmitError::Directory)?;
    for checked in [config, &directory] {
        home::check_private(checked).map_err(AdmitError::Directory)?;
    }
    let path = directory.join(kept.admission.file_name());
    let written = |written| taken_in(kept, book, (&path, written));
    if let Ok(bytes) = read_all(&path) {
        let held = read_record(kind, "", &bytes);
        match held {
            Ok(held) if held.digest == kept.digest => return Ok(written(false)),
            Ok(_) | Err(_) if !replace => return Err(AdmitError::Exists { path }),
            Ok(_) | Err(_) => {}
        }
    }
    let failed = |source| AdmitError::Write {
        path: path.clone(),
        source,
    };
    let mut text =
        serde_json::to_vec_pretty(&kept.admission).map_err(|e| failed(io::Error::other(e)))?;
    text.push(b'\n');
    let random = cto_contract::ids::to_hex(&crate::random::<8>()?);
    let draft = directory.join(format!("{DRAFT}{random}"));
    write_new(&draft, &text).map_err(failed)?;
    let placed = if replace {
        fs::rename(&draft, &path)
    } else {
        // Fails where another process was faster.
        let linked = fs::hard_link(&draft, &path);
        fs::remove_file(&draft).and(linked)
    };
    match placed {
        Ok(()) => Ok(written(true)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(AdmitError::Exists { path }),
        Err(e) => Err(failed(e)),
    }
}

/// What became of a record that an operator has just signed: its file is there, and no other says otherwise.
pub fn admit_signed(harness: &Harness, kept: &KeptRecord) -> Result<AdmitOutput, LedgerError> {
    let book = harness.ledger().authority()?.admissions;
    put_records_back(harness, &book)?;
    let files = record_files(&book);
    let is_this = |signed: &SignedAdmission| signed.statement.digest == kept.digest;
    let path = files.iter().find(|(_, signed)| is_this(signed));
    let path = path.map(|(path, _)| harness.config.dir.join(path));
    Ok(taken_in(kept, &book, (&path.unwrap_or_default(), true)))
}

fn taken_in(
    kept: &KeptRecord,
    book: &AdmissionBook,
    (path, written): (&Path, bool),
) -> AdmitOutput {
    let kind = kept.admission.kind();
    AdmitOutput {
        schema_version: AdmitTag,
        kind,
        subject: kept.admission.subject(),
        state: state_of(&kept.admission, crate::now()).0,
        digest: kept.digest.clone(),
        admission: book.seal(kind, &kept.digest),
        signature: book.find(kind, &kept.digest).map(record_signature),
        path: path.display().to_string(),
        written,
    }
}

fn record_signature(signed: &SignedAdmission) -> RecordSignature {
    RecordSignature {
        signer: signed.statement.signer.clone(),
        presence: signed.presence,
        custody: signed.custody,
        seq: signed.seq,
        at: signed.statement.at,
        key_counts: !signed.is_revoked,
    }
}

/// Reads a regular file, up to one byte more than a document may have.
fn read_all(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    let most = DOCUMENT_BYTES_MAX as u64 + 1;
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The skeleton of a record, which admits nothing. Of a program that is installed it knows place and digest.
pub fn admission_template(env: &Environment, kind: AdmissionKind, lane: Lane) -> Admission {
    let mut template = Admission::template(kind, lane);
    if let Admission::Binary(record) = &mut template {
        let path = env.get("PATH").unwrap_or_default();
        if let Some(seen) = program_seen(env, lane, &[], path) {
            record.path = seen.path.parse().unwrap_or_default();
            record.sha256 = Some(seen.digest);
            record.package_sha256 = seen.package;
            record.interpreter_sha256 = seen.interpreter;
        }
    }
    template
}

/// Lists the records of the config directory and what the ledger says of them, a page at a time, in the order of their
/// files. A signed record whose file is gone is listed too.
pub fn list_admissions(
    config: &Path,
    book: &AdmissionBook,
    at: Utc,
    (limit, after): (usize, Option<&str>),
) -> Result<AdmissionsOutput, RecordsError> {
    let files = scan(config)?;
    let found: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
    let mut rows: Vec<AdmissionRow> = files.into_iter().map(|file| row(file, book, at)).collect();
    for (path, signed) in record_files(book) {
        let name = path.display().to_string();
        if !found.contains(&name) {
            rows.push(missing(name, signed));
        }
    }
    rows.sort_by(|a, b| a.file.cmp(&b.file));
    rows.retain(|row| after.is_none_or(|after| row.file.as_str() > after));
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|row| row.file.clone());
    Ok(AdmissionsOutput {
        schema_version: AdmissionsTag,
        directory: config.display().to_string(),
        records: rows,
        next,
    })
}

/// The file of a record that an operator signed, which is not there.
fn missing(file: String, signed: &SignedAdmission) -> AdmissionRow {
    let statement = &signed.statement;
    let record = Admission::from_value(statement.admission, &statement.record).ok();
    AdmissionRow {
        kind: statement.admission,
        lane: record.as_ref().and_then(lane_of),
        subject: record.as_ref().map(Admission::subject),
        state: RecordState::RolledBack,
        why: Some(fault(&file, FileState::Missing)),
        digest: Some(statement.digest.clone()),
        admission: Some(signed.seal()),
        signature: Some(record_signature(signed)),
        file,
    }
}

fn fault(file: &str, state: FileState) -> String {
    let file = file.to_owned();
    TrustFileFault { file, state }.to_string()
}

fn row(file: RecordFile, book: &AdmissionBook, at: Utc) -> AdmissionRow {
    match file.found {
        Ok(kept) => {
            let kind = kept.admission.kind();
            let (state, why) = match is_superseded(&kept, book) {
                true => (
                    RecordState::RolledBack,
                    Some(fault(&file.name, FileState::Other)),
                ),
                false => state_of(&kept.admission, at),
            };
            AdmissionRow {
                file: file.name,
                kind,
                lane: lane_of(&kept.admission),
                subject: Some(kept.admission.subject()),
                state,
                why,
                admission: Some(book.seal(kind, &kept.digest)),
                signature: book.find(kind, &kept.digest).map(record_signature),
                digest: Some(kept.digest),
            }
        }
        Err(bad) => AdmissionRow {
            file: file.name,
            kind: bad.kind,
            lane: bad.lane,
            subject: bad
                .pair
                .map(|(provider, model)| format!("{provider}/{model}")),
            state: RecordState::Bad,
            why: Some(bad.why),
            digest: None,
            admission: None,
            signature: None,
        },
    }
}
