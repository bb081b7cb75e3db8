//! Taking records in and listing them: what `cto admit` and `cto admissions` do.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cto_contract::admission::{Admission, AdmissionKind};
use cto_contract::document::{DOCUMENT_BYTES_MAX, DocumentError};
use cto_contract::outputs::{
    AdmissionRow, AdmissionsOutput, AdmissionsTag, AdmitOutput, AdmitTag, RecordState,
};
use cto_contract::time::Utc;
use cto_contract::words::Lane;
use cto_rules::admission::state_of;

use super::{DIRECTORY, DRAFT, RecordFile, RecordsError, lane_of, read_record, scan, write_new};
use crate::adapters::program_file;
use crate::environment::Environment;
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
    #[error("the directory of the records can't be used")]
    Directory(#[source] HomeError),
    #[error("`{path}` can't be written")]
    Write { path: PathBuf, source: io::Error },
    #[error("no random bytes from the kernel")]
    Random(#[from] getrandom::Error),
}

/// Takes a record from a file into the config directory. Another record about the same is replaced only when that is said.
pub fn admit_file(
    config: &Path,
    kind: AdmissionKind,
    file: &Path,
    replace: bool,
) -> Result<AdmitOutput, AdmitError> {
    let bytes = read_all(file).map_err(|source| AdmitError::Read {
        path: file.to_owned(),
        source,
    })?;
    let name = file.display().to_string();
    let kept = read_record(kind, &name, &bytes).map_err(AdmitError::Invalid)?;
    let directory = config.join(DIRECTORY);
    home::make_private(&directory).map_err(AdmitError::Directory)?;
    for checked in [config, &directory] {
        home::check_private(checked).map_err(AdmitError::Directory)?;
    }
    let path = directory.join(file_name(&kept.admission));
    let written = |written| AdmitOutput {
        schema_version: AdmitTag,
        kind,
        subject: kept.admission.subject(),
        state: state_of(&kept.admission, crate::now()).0,
        digest: kept.digest.clone(),
        admission: kept.seal,
        path: path.display().to_string(),
        written,
    };
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

/// The name under which a record is kept: what it is about, in letters that every file system takes.
fn file_name(admission: &Admission) -> String {
    let (what, about) = match admission {
        Admission::Source(record) => ("SOURCE-ADMISSION", record.lane.to_string()),
        Admission::Binary(record) => ("BINARY-ADMISSION", record.lane.to_string()),
        Admission::Model(record) => (
            "MODEL-PROVIDER-ADMISSION",
            format!("{}-{}", record.provider, record.model),
        ),
        Admission::Decision(record) => ("PROVIDER-DECISION", record.lane.to_string()),
        Admission::Target(record) => ("TARGET-ADMISSION", record.id().unwrap_or_default()),
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let about = about.chars().map(|c| if allowed(c) { c } else { '_' });
    let about: String = about.take(150).collect();
    format!("{what}.{about}.json")
}

/// The skeleton of a record, which admits nothing. Of a program that is installed it knows place and digest.
pub fn admission_template(env: &Environment, kind: AdmissionKind, lane: Lane) -> Admission {
    let mut template = Admission::template(kind, lane);
    if let Admission::Binary(record) = &mut template {
        let path = env.get("PATH").unwrap_or_default();
        let seen = program_file(env, lane, &[], path).and_then(|file| file.seen());
        if let Some(seen) = seen {
            record.path = seen.path.parse().unwrap_or_default();
            record.sha256 = Some(seen.digest);
        }
    }
    template
}

/// Lists the records of the config directory, a page at a time, in the order of their files.
pub fn list_admissions(
    config: &Path,
    at: Utc,
    (limit, after): (usize, Option<&str>),
) -> Result<AdmissionsOutput, RecordsError> {
    let mut files = scan(config)?;
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files.retain(|file| after.is_none_or(|after| file.name.as_str() > after));
    let more = files.len() > limit;
    files.truncate(limit);
    let next = files.last().filter(|_| more).map(|file| file.name.clone());
    Ok(AdmissionsOutput {
        schema_version: AdmissionsTag,
        directory: config.display().to_string(),
        records: files.into_iter().map(|file| row(file, at)).collect(),
        next,
    })
}

fn row(file: RecordFile, at: Utc) -> AdmissionRow {
    match file.found {
        Ok(kept) => {
            let (state, why) = state_of(&kept.admission, at);
            AdmissionRow {
                file: file.name,
                kind: kept.admission.kind(),
                lane: lane_of(&kept.admission),
                subject: Some(kept.admission.subject()),
                state,
                why,
                digest: Some(kept.digest),
                admission: Some(kept.seal),
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
        },
    }
}
