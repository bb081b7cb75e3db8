//! The files of trust: written from the ledger, compared with it, never read for what they say.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use cto_contract::admission::Admission;
use cto_contract::trust::TrustedKey;
use cto_evidence::sshsig::NAMESPACE;
use cto_rules::authority::{AdmissionBook, SignedAdmission};
use cto_rules::standing::FileState;

use crate::authority::Authority;
use crate::error::LedgerError;
use crate::ledger::Ledger;

/// The operators' file, in OpenSSH's format.
pub const OPERATORS_FILE: &str = "operators.allowed_signers";

/// Where harness keys are.
const TRUST: &str = "trust/harness";

/// Where records of admissions are.
pub const ADMISSIONS: &str = "admissions";

/// The file of each signed record, below the config directory. Names that come to the same are numbered.
pub fn record_files(book: &AdmissionBook) -> BTreeMap<PathBuf, &SignedAdmission> {
    let mut files = BTreeMap::new();
    for signed in book.all() {
        let statement = &signed.statement;
        let record = Admission::from_value(statement.admission, &statement.record);
        let name = record.map_or_else(
            |_| format!("{}-{}.json", statement.admission, statement.digest.short()),
            |record| record.file_name(),
        );
        let stem = name.trim_end_matches(".json");
        let again = (2..).map(|n| format!("{stem}-{n}.json"));
        let mut names = std::iter::once(name.clone()).chain(again);
        let free = names.find(|name| !files.contains_key(&Path::new(ADMISSIONS).join(name)));
        files.insert(Path::new(ADMISSIONS).join(free.unwrap_or(name)), signed);
    }
    files
}

/// The bytes of a record's file.
fn record_bytes(record: &serde_json::Value) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(record)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Largest file of trust that is read: more differs anyhow.
const FILE_BYTES_MAX: u64 = 2 << 20;

/// A file of trust that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("could not {what} `{path}`")]
pub struct TrustFilesError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TrustFilesError {
    let path = path.to_owned();
    move |source| TrustFilesError { what, path, source }
}

/// Writes a file so that it is there whole or not at all, and outlives a power cut.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".new-{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    File::open(directory)?.sync_all()
}

/// The bytes of a harness key's trust file.
pub(crate) fn trust_bytes(key: &TrustedKey) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(key)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The files of one config directory.
pub struct TrustFiles<'a> {
    pub(crate) config: &'a Path,
}

impl TrustFiles<'_> {
    /// What each file has to hold, by its path in the config directory. Nothing, where nobody decides.
    fn expected(
        &self,
        authority: &Authority,
    ) -> Result<BTreeMap<PathBuf, Vec<u8>>, TrustFilesError> {
        let mut files = BTreeMap::new();
        if !authority.is_governed() {
            return Ok(files);
        }
        let operators = authority.operators.allowed_signers(NAMESPACE);
        files.insert(PathBuf::from(OPERATORS_FILE), operators.into_bytes());
        for key in authority.trust.keys() {
            let path = Path::new(TRUST).join(format!("{}.json", key.keyid));
            let bytes = trust_bytes(key).map_err(failed("encode", &path))?;
            files.insert(path, bytes);
        }
        for (path, signed) in record_files(&authority.admissions) {
            let bytes = record_bytes(&signed.statement.record);
            files.insert(path.clone(), bytes.map_err(failed("encode", &path))?);
        }
        Ok(files)
    }

    /// Compares every file with what the ledger holds.
    pub fn compare(
        &self,
        authority: &Authority,
    ) -> Result<Vec<(String, FileState)>, TrustFilesError> {
        let expected = self.expected(authority)?;
        let mut states = Vec::new();
        for (path, bytes) in &expected {
            let state = match self.read(path)? {
                None => FileState::Missing,
                Some(found) if found == *bytes => FileState::Same,
                Some(_) => FileState::Other,
            };
            states.push((path.display().to_string(), state));
        }
        for path in self.present(authority)? {
            if !expected.contains_key(&path) {
                states.push((path.display().to_string(), FileState::Extra));
            }
        }
        Ok(states)
    }

    /// Writes every file from the ledger, and takes away what it knows nothing of. Says which were touched.
    pub fn write(&self, authority: &Authority) -> Result<Vec<String>, TrustFilesError> {
        let expected = self.expected(authority)?;
        let mut touched = Vec::new();
        for (path, bytes) in &expected {
            if self.read(path)?.as_ref() == Some(bytes) {
                continue;
            }
            let place = self.config.join(path);
            write_private(&place, bytes).map_err(failed("write", &place))?;
            touched.push(path.display().to_string());
        }
        for path in self.present(authority)? {
            if !expected.contains_key(&path) {
                let place = self.config.join(&path);
                fs::remove_file(&place).map_err(failed("remove", &place))?;
                touched.push(path.display().to_string());
            }
        }
        Ok(touched)
    }

    /// Writes a signed record over a file of the config directory.
    pub fn write_record(
        &self,
        name: &str,
        record: &serde_json::Value,
    ) -> Result<(), TrustFilesError> {
        let place = self.config.join(name);
        let bytes = record_bytes(record).map_err(failed("encode", &place))?;
        write_private(&place, &bytes).map_err(failed("write", &place))
    }

    /// Files of trust that lie there. Harness keys are the ledger's business only once somebody decides.
    fn present(&self, authority: &Authority) -> Result<Vec<PathBuf>, TrustFilesError> {
        let mut found = Vec::new();
        let operators = PathBuf::from(OPERATORS_FILE);
        if fs::symlink_metadata(self.config.join(&operators)).is_ok() {
            found.push(operators);
        }
        if !authority.is_governed() {
            return Ok(found);
        }
        let directory = self.config.join(TRUST);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(e) => return Err(failed("read", &directory)(e)),
        };
        for entry in entries {
            let name = entry.map_err(failed("read", &directory))?.file_name();
            let path = Path::new(TRUST).join(name);
            if path.extension().is_some_and(|e| e == "json") {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, TrustFilesError> {
        let place = self.config.join(path);
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_file() && found.len() <= FILE_BYTES_MAX => {}
            // Whatever it is, it is not the file that was written.
            Ok(_) => return Ok(Some(Vec::new())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("look at", &place)(e)),
        }
        fs::read(&place).map(Some).map_err(failed("read", &place))
    }
}

impl Ledger<'_> {
    /// Writes the files of trust from the ledger. Says which were touched.
    pub fn write_files(&self) -> Result<Vec<String>, LedgerError> {
        Ok(self.files().write(&self.authority()?)?)
    }
}
