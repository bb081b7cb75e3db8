//! A task contract as a file that its author names: read, and looked at for likely mistakes.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cto_contract::document::{DOCUMENT_BYTES_MAX, DocumentError};
use cto_contract::task::TaskContract;
use cto_evidence::canonical::{CanonicalError, digest_of};
use cto_rules::advice::contract_warnings;
use cto_rules::outputs::{ContractCheckOutput, ContractCheckTag};
use cto_rules::project::ProjectTree;
use cto_rules::secrets::refuse_in_record;

use crate::project_files::{self, ProjectError};

/// A contract that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ContractFileError {
    #[error("the contract `{path}` can't be read")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the contract `{path}` is not a regular file")]
    Special { path: PathBuf },
    #[error("`{name}` is not a task contract")]
    Invalid { name: String, source: DocumentError },
    #[error("`{name}` holds something that looks like a secret ({rule}{})", at_line(*line))]
    Secret {
        name: String,
        rule: String,
        /// The author's line, where it can be told.
        line: Option<usize>,
    },
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error("the contract can't be encoded")]
    Encode(#[from] serde_json::Error),
    #[error("the contract's digest can't be taken")]
    Digest(#[from] CanonicalError),
}

fn at_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

impl ContractFileError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } | Self::Special { .. } => "contract_unreadable",
            Self::Invalid { .. } => "contract_invalid",
            Self::Secret { .. } => "contract_secret",
            Self::Project(error) => error.code(),
            Self::Encode(_) | Self::Digest(_) => "output_not_encoded",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Unreadable { .. } => "`cto init` writes one to start from",
            Self::Invalid { .. } => {
                "`cto schema contract` prints the format; `cto init` writes one to start from"
            }
            Self::Secret { .. } => {
                "take the secret out of the contract, and change it where it is used"
            }
            Self::Special { .. } | Self::Project(_) | Self::Encode(_) | Self::Digest(_) => {
                return None;
            }
        };
        Some(hint.to_owned())
    }
}

/// Reads a contract, YAML or JSON, and refuses one that holds a secret.
pub fn read_contract(path: &Path) -> Result<TaskContract, ContractFileError> {
    let failed = |source| ContractFileError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(ContractFileError::Special {
            path: path.to_owned(),
        });
    }
    let mut bytes = Vec::new();
    // One more than is read, so that the reader sees that it is too long.
    file.take(DOCUMENT_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    parse_contract(&path.display().to_string(), &bytes)
}

/// The same for bytes that came from elsewhere.
pub fn parse_contract(name: &str, bytes: &[u8]) -> Result<TaskContract, ContractFileError> {
    let contract =
        TaskContract::read(name, bytes).map_err(|source| ContractFileError::Invalid {
            name: name.to_owned(),
            source,
        })?;
    let text = serde_json::to_string_pretty(&contract)?;
    let Some(finding) = refuse_in_record(&text) else {
        return Ok(contract);
    };
    // What counts is the contract; the line is the author's.
    let line = std::str::from_utf8(bytes).ok().and_then(refuse_in_record);
    Err(ContractFileError::Secret {
        name: name.to_owned(),
        rule: finding.rule.to_string(),
        line: line.map(|found| found.line),
    })
}

/// Reads a contract and says what in it is likely a mistake. Its paths are compared with the repository that is named, else
/// with the one that the file lies at the top of.
pub fn check_contract(
    file: &Path,
    repository: Option<&Path>,
) -> Result<ContractCheckOutput, ContractFileError> {
    let contract = read_contract(file)?;
    let repository = repository
        .map(Path::to_owned)
        .or_else(|| own_repository(file));
    let tree = match &repository {
        Some(directory) => project_files::tree(directory)?,
        None => ProjectTree::default(),
    };
    Ok(ContractCheckOutput {
        schema_version: ContractCheckTag,
        file: file.display().to_string(),
        contract_digest: digest_of(&contract)?,
        repository: repository.map(|r| r.display().to_string()),
        tree_complete: tree.complete,
        warnings: contract_warnings(&contract, &tree),
        task_id: contract.task_id,
    })
}

/// The directory of the file, when it is the top of a repository.
fn own_repository(file: &Path) -> Option<PathBuf> {
    let parent = file.parent()?;
    let directory = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    project_files::is_repository(directory).then(|| directory.to_owned())
}
