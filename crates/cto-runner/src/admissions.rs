//! The records of people: found in the config directory by their content, or in a file that the environment names.
//!
//! A file is read once. What a run used of it is kept in home under the digest of its canonical form; nothing is ever read
//! from a repository or from the working directory.

mod kept;
mod office;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use cto_contract::admission::{Admission, AdmissionKind, TargetAdmission};
use cto_contract::document::{self, DOCUMENT_BYTES_MAX, DocumentError};
use cto_contract::ids::Digest;
use cto_contract::words::Lane;
use cto_evidence::canonical::{digest_of, to_canonical};
use cto_rules::admission::{
    BadRecord, ModelRequest, NamedRecord, Records, Stored, dated_ahead, unreadable_target,
};
use cto_rules::authority::AdmissionBook;
use cto_rules::secrets::refuse_in_record;
use serde_json::Value;

use crate::environment::Environment;
use crate::error_chain;
use crate::home::{self, HomeError};

pub(crate) use kept::{keep, write_new};
pub use office::{
    AdmitError, admission_template, admit_signed, admit_unsigned, check_unopposed, list_admissions,
    read_filled_in, read_record_file,
};

/// Where `cto admit` writes, below the config directory. Records may also lie in that directory itself.
pub(crate) const DIRECTORY: &str = cto_ledger::ADMISSIONS;
/// Most files that are looked at.
const FILES_MAX: usize = 1_000;
/// How the name of a record begins that is being written.
pub(crate) const DRAFT: &str = ".new-";

/// A file of the config directory that is a record, or looks like one.
#[derive(Debug, Clone)]
pub struct RecordFile {
    /// Its path below the config directory.
    pub name: String,
    pub found: Result<KeptRecord, BadRecord>,
}

/// A record that could be read.
#[derive(Debug, Clone)]
pub struct KeptRecord {
    pub admission: Admission,
    pub digest: Digest,
}

/// Records that can't be looked for.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    #[error("the directory of the records can't be used")]
    Directory(#[source] HomeError),
    #[error("`{path}` can't be read")]
    Read { path: PathBuf, source: io::Error },
    #[error("`{path}` holds more than {FILES_MAX} files")]
    TooMany { path: PathBuf },
}

impl RecordsError {
    /// The reason in words that fit any machine.
    fn without_path(&self) -> String {
        match self {
            Self::Directory(_) => format!(
                "`{DIRECTORY}/` of the config directory belongs to another user, or others can write it"
            ),
            Self::Read { source, .. } => {
                format!("the config directory can't be read: {}", source.kind())
            }
            Self::TooMany { .. } => {
                format!("the config directory holds more than {FILES_MAX} documents")
            }
        }
    }
}

/// Everything that is known of what people let in.
#[derive(Debug, Default)]
pub(crate) struct Authority {
    pub(crate) records: Records,
    pub(crate) requests: BTreeMap<Lane, ModelRequest>,
    /// Admissions of targets that the environment names.
    pub(crate) targets: BTreeMap<Lane, NamedRecord<TargetAdmission>>,
}

/// Finds every record of the config directory.
pub fn scan(config: &Path) -> Result<Vec<RecordFile>, RecordsError> {
    let mut files = Vec::new();
    for below in ["", DIRECTORY] {
        let directory = if below.is_empty() {
            config.to_owned()
        } else {
            config.join(below)
        };
        if !directory.exists() {
            continue;
        }
        home::check_private(&directory).map_err(RecordsError::Directory)?;
        for name in names_in(&directory)? {
            let shown = Path::new(below).join(&name).display().to_string();
            files.extend(look_at(&directory.join(&name), shown));
        }
    }
    Ok(files)
}

/// Names of files that could be records, in order.
fn names_in(directory: &Path) -> Result<Vec<String>, RecordsError> {
    let failed = |source| RecordsError::Read {
        path: directory.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let Ok(name) = entry.map_err(failed)?.file_name().into_string() else {
            continue;
        };
        let is_document = [".json", ".yaml", ".yml"]
            .iter()
            .any(|end| name.ends_with(end));
        if is_document && !name.starts_with('.') {
            names.push(name);
        }
        if names.len() > FILES_MAX {
            let path = directory.to_owned();
            return Err(RecordsError::TooMany { path });
        }
    }
    names.sort();
    Ok(names)
}

/// Reads one file; none when it is no record at all.
fn look_at(path: &Path, name: String) -> Option<RecordFile> {
    let bytes = match read_private(path) {
        Ok(bytes) => bytes,
        Err(why) => {
            // What it is about can't be told, and it admits nothing.
            let found = Err(bad(AdmissionKind::Model, (name.clone(), why), None));
            return (!path.is_dir()).then_some(RecordFile { name, found });
        }
    };
    let value = document::read::<Value>(&name, &bytes).ok();
    let kind = match &value {
        Some(value) => AdmissionKind::of(value)?,
        None => guess(&String::from_utf8_lossy(&bytes))?,
    };
    let read = read_record(kind, &name, &bytes);
    let found = read.map_err(|error| {
        let place = format!("{}:{}:{}", error.name, error.line, error.column);
        bad(kind, (place, error.message), value.as_ref())
    });
    Some(RecordFile { name, found })
}

/// What a text that can't be parsed seems to be a record of, by the names in it.
fn guess(text: &str) -> Option<AdmissionKind> {
    let has = |names: &[&str]| names.iter().all(|name| text.contains(name));
    let tagged = AdmissionKind::ALL.iter().copied();
    let tagged = tagged.clone().find(|kind| text.contains(kind.schema()));
    let named = [
        (AdmissionKind::Target, &["target_repository_path"][..]),
        (AdmissionKind::Decision, &["decision_status"]),
        (AdmissionKind::Binary, &["lane", "sha256"]),
        (AdmissionKind::Source, &["lane", "allowed_execution_modes"]),
        (AdmissionKind::Model, &["provider", "allowed_network_class"]),
    ];
    let named = named.into_iter().find(|(_, names)| has(names));
    tagged.or(named.map(|(kind, _)| kind))
}

fn bad(kind: AdmissionKind, (place, why): (String, String), value: Option<&Value>) -> BadRecord {
    let text = |name: &str| value.and_then(|v| v.get(name)).and_then(Value::as_str);
    let pair = text("provider").zip(text("model"));
    BadRecord {
        kind,
        why: format!("{place}: {why}"),
        place,
        lane: text("lane").and_then(|lane| lane.parse().ok()),
        pair: pair.map(|(provider, model)| (provider.to_owned(), model.to_owned())),
    }
}

/// Reads a record of a kind; the error names file, line and reason.
pub fn read_record(
    kind: AdmissionKind,
    name: &str,
    bytes: &[u8],
) -> Result<KeptRecord, DocumentError> {
    let whole = |e: &dyn std::error::Error| DocumentError::whole(name, error_chain(e));
    let admission = cto_rules::admission::read(kind, name, bytes)?;
    if let Some(field) = dated_ahead(&admission, crate::now()).filter(|_| admission.is_admitted()) {
        let (line, column) = document::place_of_key(bytes, field).unwrap_or((1, 1));
        return Err(DocumentError {
            name: name.to_owned(),
            line,
            column,
            message: format!("`{field}` lies in the future, and the record is admitted"),
        });
    }
    // Once more in the form that is kept: an escape in the file could hide what is refused.
    let canonical = to_canonical(&admission).map_err(|e| whole(&e))?;
    if let Some(found) = refuse_in_record(&String::from_utf8_lossy(&canonical)) {
        let message = format!("something in it looks like a secret ({})", found.rule);
        return Err(DocumentError::whole(name, message));
    }
    let digest = digest_of(&admission).map_err(|e| whole(&e))?;
    Ok(KeptRecord { admission, digest })
}

/// Reads a file that nobody else can write.
fn read_private(path: &Path) -> Result<Vec<u8>, String> {
    // A pipe by that name must not hold us up.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|e| format!("it can't be opened: {}", e.kind()))?;
    let meta = file.metadata().map_err(|e| e.to_string())?;
    if !meta.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me && meta.uid() != 0 {
        return Err("it belongs to another user".to_owned());
    }
    if meta.mode() & 0o022 != 0 {
        return Err("others can write it: chmod go-w".to_owned());
    }
    let mut bytes = Vec::new();
    let most = DOCUMENT_BYTES_MAX as u64 + 1;
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("it can't be read: {}", e.kind()))?;
    Ok(bytes)
}

impl Authority {
    /// Reads all of it. `repository` is what the run works on: no record of it counts. Whether an operator stands for a
    /// record, only the ledger's book says.
    pub(crate) fn read(
        config: &Path,
        env: &Environment,
        repository: Option<&Path>,
        book: &AdmissionBook,
    ) -> Self {
        let mut authority = Self::default();
        match scan(config) {
            Ok(files) => {
                for file in files {
                    match file.found {
                        Ok(kept) => authority.add(kept, book),
                        Err(bad) => authority.records.bad.push(bad),
                    }
                }
            }
            // Nothing of it counts, and every kind says why.
            Err(error) => {
                let why = || (DIRECTORY.to_owned(), error.without_path());
                let unread = |kind: &AdmissionKind| bad(*kind, why(), None);
                authority.records.bad = AdmissionKind::ALL.iter().map(unread).collect();
            }
        }
        for lane in Lane::ALL {
            authority.take_named(*lane, env, repository, book);
        }
        authority
    }

    fn add(&mut self, kept: KeptRecord, book: &AdmissionBook) {
        let seal = book.seal(kept.admission.kind(), &kept.digest);
        self.records.add(kept.admission, kept.digest, seal);
    }

    /// Takes what the environment says about a lane: which pair it asks for, and which files alone count.
    fn take_named(
        &mut self,
        lane: Lane,
        env: &Environment,
        repository: Option<&Path>,
        book: &AdmissionBook,
    ) {
        let named = |kind: AdmissionKind| {
            let variable = lane.admission_file(kind)?;
            let path = env.get(&variable)?;
            Some(read_named(kind, &variable, path, repository, book))
        };
        let value = |variable: Option<String>| Some(env.get(&variable?)?.to_owned());
        let file = named(AdmissionKind::Model);
        let file = file.map(|found| {
            named_record(found, book, |admission| match admission {
                Admission::Model(record) => Some(record),
                Admission::Source(_)
                | Admission::Binary(_)
                | Admission::Decision(_)
                | Admission::Target(_) => None,
            })
        });
        let target = named(AdmissionKind::Target);
        if let Some(found) = target {
            let target = named_record(found, book, |admission| match admission {
                Admission::Target(record) => Some(record),
                Admission::Source(_)
                | Admission::Binary(_)
                | Admission::Decision(_)
                | Admission::Model(_) => None,
            });
            self.targets.insert(lane, target);
        }
        let request = ModelRequest {
            provider: value(lane.model_provider()),
            model: value(lane.model()),
            file,
        };
        self.requests.insert(lane, request);
        let others = [
            AdmissionKind::Source,
            AdmissionKind::Binary,
            AdmissionKind::Decision,
        ];
        for kind in others {
            if let Some(found) = named(kind) {
                self.replace(kind, lane, found, book);
            }
        }
    }

    /// Lets one file alone speak about a lane.
    fn replace(
        &mut self,
        kind: AdmissionKind,
        lane: Lane,
        found: Result<Option<KeptRecord>, String>,
        book: &AdmissionBook,
    ) {
        let records = &mut self.records;
        records
            .sources
            .retain(|s| kind != AdmissionKind::Source || s.record.lane != lane);
        records
            .binaries
            .retain(|b| kind != AdmissionKind::Binary || b.record.lane != lane);
        records
            .decisions
            .retain(|d| kind != AdmissionKind::Decision || d.record.lane != lane);
        records
            .bad
            .retain(|bad| bad.kind != kind || bad.lane != Some(lane));
        let variable = lane.admission_file(kind).unwrap_or_default();
        let refused = |why: String| BadRecord {
            kind,
            place: format!("${variable}"),
            why,
            lane: Some(lane),
            pair: None,
        };
        match found {
            Ok(Some(kept)) if lane_of(&kept.admission) == Some(lane) => self.add(kept, book),
            Ok(Some(_)) => {
                let why = format!("${variable} names a record of another lane");
                records.bad.insert(0, refused(why));
            }
            Ok(None) => {
                let why = format!("${variable} names a file that is not there");
                records.bad.insert(0, refused(why));
            }
            Err(why) => records.bad.insert(0, refused(why)),
        }
    }
}

/// Whether an operator signed another record about the same.
pub(crate) fn is_superseded(kept: &KeptRecord, book: &AdmissionBook) -> bool {
    let last = book.about(kept.admission.kind(), &kept.admission.about());
    last.is_some_and(|last| last.statement.digest != kept.digest)
}

/// The lane that a record is about; none for a record of something else.
pub(crate) fn lane_of(admission: &Admission) -> Option<Lane> {
    match admission {
        Admission::Source(record) => Some(record.lane),
        Admission::Binary(record) => Some(record.lane),
        Admission::Decision(record) => Some(record.lane),
        Admission::Model(_) | Admission::Target(_) => None,
    }
}

/// What came of the file that a variable names. It was read as a record of its kind.
fn named_record<T>(
    found: Result<Option<KeptRecord>, String>,
    book: &AdmissionBook,
    of_kind: impl FnOnce(Admission) -> Option<T>,
) -> NamedRecord<T> {
    let kept = match found {
        Ok(None) => return NamedRecord::Missing,
        Err(why) => return NamedRecord::Invalid(why),
        Ok(Some(kept)) => kept,
    };
    let seal = book.seal(kept.admission.kind(), &kept.digest);
    match of_kind(kept.admission) {
        None => NamedRecord::Invalid("it is a record of another kind".to_owned()),
        Some(record) => NamedRecord::Record(Box::new(Stored {
            record,
            digest: kept.digest,
            seal,
        })),
    }
}

/// Reads the file that a variable names; none when it is not there. No message names its path.
fn read_named(
    kind: AdmissionKind,
    variable: &str,
    path: &str,
    repository: Option<&Path>,
    book: &AdmissionBook,
) -> Result<Option<KeptRecord>, String> {
    let name = format!("${variable}");
    let refused = |why: &str| Err(format!("{name}: {why}"));
    if !path.starts_with('/') {
        return refused("it must be an absolute path: nothing is read from the working directory");
    }
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return refused(&format!("it can't be opened: {}", e.kind())),
    };
    let repository = repository.and_then(|path| fs::canonicalize(path).ok());
    if repository.is_some_and(|repository| real.starts_with(repository)) {
        return refused("it lies in the repository that the run works on, which admits nothing");
    }
    match read_private(&real) {
        Ok(bytes) => match read_record(kind, &name, &bytes) {
            // What an operator signed is not undone by naming another file.
            Ok(kept) if is_superseded(&kept, book) => refused(
                "an operator signed another record about the same, and only that one counts",
            ),
            Ok(kept) => Ok(Some(kept)),
            // What is wrong with a target's record may hold its path, and stands in a report.
            Err(error) if kind == AdmissionKind::Target => {
                let place = format!("{name}:{}:{}", error.line, error.column);
                Err(unreadable_target(&place))
            }
            Err(error) => Err(error.to_string()),
        },
        Err(why) => refused(&why),
    }
}

#[cfg(test)]
mod tests;
