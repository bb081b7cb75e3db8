//! Files of a pack, read for showing: by directory descriptor, no link followed, size capped, and of a sealed pack only
//! what hashes to what its seal says.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cto_contract::artifact::{
    ATTESTATION, BACKEND_DIR, ELIGIBILITY, EVENTS, REPORT_JSON, SHA256SUMS, TASK_CONTRACT, TEST_LOG,
};
use cto_contract::document::DocumentError;
use cto_contract::eligibility::EligibilityDecision;
use cto_contract::event::RunEvent;
use cto_contract::outputs::ShownReport;
use cto_contract::report::Report;
use cto_contract::task::TaskContract;
use cto_evidence::canonical::sha256;
use cto_evidence::chain::{ChainError, read_log};
use cto_evidence::pack::PackDir;
use cto_evidence::withheld::{WITHHELD, read_withheld};
use serde::de::DeserializeOwned;

use crate::provenance::OpenedPack;

/// Most bytes of one file that is shown.
const SHOWN_BYTES_MAX: u64 = 512 << 20;

/// A file of a pack that can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum PackFileError {
    #[error("could not read `{path}`")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{path}` is not a regular file")]
    Special { path: PathBuf },
    #[error("`{path}` is larger than the {SHOWN_BYTES_MAX} bytes that are shown")]
    Oversized { path: PathBuf },
    #[error("`{name}` was withheld when this pack was exported")]
    Withheld { name: String },
    #[error("`{path}` is not what was sealed")]
    Altered { path: PathBuf },
    #[error("there is no `{path}`")]
    Missing { path: PathBuf },
    #[error("the report of `{pack}` can't be read")]
    Report {
        pack: PathBuf,
        source: serde_json::Error,
    },
    #[error("the decision of `{pack}` can't be read")]
    Decision {
        pack: PathBuf,
        source: serde_json::Error,
    },
    #[error("the contract of `{pack}` can't be read")]
    Contract {
        pack: PathBuf,
        source: DocumentError,
    },
    #[error("the log of `{pack}` can't be read")]
    Log { pack: PathBuf, source: ChainError },
}

impl PackFileError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "file_unreadable",
            Self::Special { .. } => "file_special",
            Self::Oversized { .. } => "file_oversized",
            Self::Withheld { .. } => "file_withheld",
            Self::Altered { .. } => "file_altered",
            Self::Missing { .. } => "file_missing",
            Self::Report { .. } => "report_malformed",
            Self::Decision { .. } => "decision_malformed",
            Self::Contract { .. } => "contract_invalid",
            Self::Log { .. } => "log_broken",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Withheld { .. } => "ask whoever exported it for the whole pack",
            Self::Altered { .. } => {
                "do not rely on it; `cto verify` shows everything that is wrong"
            }
            Self::Missing { .. } => {
                "a run that still goes on has no report yet: `cto watch` follows it; one that crashed is sealed by \
                 `cto recover`"
            }
            Self::Unreadable { .. }
            | Self::Special { .. }
            | Self::Oversized { .. }
            | Self::Report { .. }
            | Self::Decision { .. }
            | Self::Contract { .. }
            | Self::Log { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

/// Reads a file; none when it is not there. One that was sealed otherwise is refused.
pub fn read(opened: &OpenedPack, name: &str) -> Result<Option<Vec<u8>>, PackFileError> {
    let pack = opened.pack.as_path();
    let bytes = read_unchecked(pack, name)?;
    // These two are what the opening looked at, and the third says what is not here.
    let is_listed = ![SHA256SUMS, ATTESTATION, WITHHELD].contains(&name);
    if let (Some(bytes), Some(sum), true) = (&bytes, opened.sum_of(name), is_listed)
        && sum != Some(&sha256(bytes))
    {
        return Err(PackFileError::Altered {
            path: pack.join(name),
        });
    }
    Ok(bytes)
}

fn read_unchecked(pack: &Path, name: &str) -> Result<Option<Vec<u8>>, PackFileError> {
    let path = || pack.join(name);
    let failed = |source| PackFileError::Unreadable {
        path: path(),
        source,
    };
    let dir = PackDir::open(pack).map_err(failed)?;
    let file = match dir.open_path(name) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(PackFileError::Special { path: path() });
    }
    let mut bytes = Vec::new();
    file.take(SHOWN_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > SHOWN_BYTES_MAX {
        return Err(PackFileError::Oversized { path: path() });
    }
    Ok(Some(bytes))
}

/// Reads a file that must be there.
pub fn require(pack: &OpenedPack, name: &str) -> Result<Vec<u8>, PackFileError> {
    match read(pack, name)? {
        Some(bytes) => Ok(bytes),
        None if is_withheld(pack, name)? => Err(PackFileError::Withheld {
            name: name.to_owned(),
        }),
        None => Err(PackFileError::Missing {
            path: pack.pack.join(name),
        }),
    }
}

fn is_withheld(pack: &OpenedPack, name: &str) -> Result<bool, PackFileError> {
    let listed = read(pack, WITHHELD)?;
    Ok(listed
        .and_then(|bytes| read_withheld(&bytes).ok())
        .is_some_and(|paths| paths.contains(name)))
}

fn parsed<T: DeserializeOwned>(
    pack: &OpenedPack,
    name: &str,
    malformed: impl FnOnce(PathBuf, serde_json::Error) -> PackFileError,
) -> Result<(Vec<u8>, T), PackFileError> {
    let bytes = require(pack, name)?;
    match serde_json::from_slice(&bytes) {
        Ok(value) => Ok((bytes, value)),
        Err(source) => Err(malformed(pack.pack.clone(), source)),
    }
}

/// Reads the report of a pack: its bytes and what they say.
pub fn report(pack: &OpenedPack) -> Result<(Vec<u8>, Report), PackFileError> {
    parsed(pack, REPORT_JSON, |pack, source| PackFileError::Report {
        pack,
        source,
    })
}

/// The report with what this home knows of the pack.
pub fn shown_report(pack: &OpenedPack) -> Result<ShownReport, PackFileError> {
    Ok(ShownReport {
        report: report(pack)?.1,
        origin: pack.provenance.origin,
        of_this_home: pack.provenance.of_this_home,
    })
}

/// Reads the bytes of the report of a pack that this process has just sealed and verified.
pub fn sealed_report_bytes(pack: &Path) -> Result<Vec<u8>, PackFileError> {
    read_unchecked(pack, REPORT_JSON)?.ok_or_else(|| PackFileError::Missing {
        path: pack.join(REPORT_JSON),
    })
}

/// Reads the report of a pack that was seen to be sealed.
pub(crate) fn sealed_report(pack: &Path) -> Result<Report, PackFileError> {
    let bytes = sealed_report_bytes(pack)?;
    serde_json::from_slice(&bytes).map_err(|source| PackFileError::Report {
        pack: pack.to_owned(),
        source,
    })
}

/// Reads what was decided before a run.
pub fn decision(pack: &OpenedPack) -> Result<EligibilityDecision, PackFileError> {
    let read = parsed(pack, ELIGIBILITY, |pack, source| PackFileError::Decision {
        pack,
        source,
    });
    Ok(read?.1)
}

/// Reads the contract of a run.
pub fn contract(pack: &OpenedPack) -> Result<TaskContract, PackFileError> {
    let bytes = require(pack, TASK_CONTRACT)?;
    TaskContract::read(TASK_CONTRACT, &bytes).map_err(|source| PackFileError::Contract {
        pack: pack.pack.clone(),
        source,
    })
}

/// Reads the log of a pack as far as it is whole.
pub fn events(pack: &OpenedPack) -> Result<Vec<RunEvent>, PackFileError> {
    let bytes = require(pack, EVENTS)?;
    let whole = bytes
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |end| end + 1);
    let log = read_log(&bytes[..whole]).map_err(|source| PackFileError::Log {
        pack: pack.pack.clone(),
        source,
    })?;
    Ok(log.events)
}

/// Whose output is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    Backend,
    Tests,
}

/// Reads the raw output of backend and checks: names and bytes.
pub fn logs(pack: &OpenedPack, kinds: &[LogKind]) -> Result<Vec<(String, Vec<u8>)>, PackFileError> {
    let mut names = Vec::new();
    if kinds.contains(&LogKind::Backend) {
        let dir = PackDir::open(&pack.pack).map_err(|source| PackFileError::Unreadable {
            path: pack.pack.clone(),
            source,
        })?;
        let paths = dir.walk().files.into_iter().map(|file| file.path);
        names.extend(paths.filter(|p| p.split('/').next() == Some(BACKEND_DIR)));
    }
    if kinds.contains(&LogKind::Tests) {
        names.push(TEST_LOG.to_owned());
    }
    let mut files = Vec::new();
    for name in names {
        if let Some(bytes) = read(pack, &name)? {
            files.push((name, bytes));
        }
    }
    Ok(files)
}
