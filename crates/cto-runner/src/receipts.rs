//! The receipt of a run: what people and the harness signed about it, gathered from ledger and pack.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_contract::artifact::ATTESTATION;
use cto_contract::ids::RunId;
use cto_contract::receipt::{Receipt, ReceiptFile, ReceiptSchema};
use cto_ledger::{CheckpointError, LedgerError, RequestState};

use crate::approvals::ApprovalError;
use crate::clock;
use crate::harness::Harness;
use crate::outcomes::OutcomeError;

/// Why a receipt can't be given.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    #[error("the ledger can't be used")]
    Ledger(#[from] LedgerError),
    #[error("the request of the run can't be shown")]
    Request(#[from] ApprovalError),
    #[error("what was decided could not be put beside the pack")]
    Outcome(#[from] OutcomeError),
    #[error("the head of the ledger could not be signed")]
    Checkpoint(#[from] CheckpointError),
    #[error("could not read `{path}`")]
    Read { path: PathBuf, source: io::Error },
}

impl ReceiptError {
    /// Machine-readable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Ledger(error) => error.code(),
            Self::Request(error) => error.code(),
            Self::Outcome(error) => error.code(),
            Self::Checkpoint(error) => error.code(),
            Self::Read { .. } => "receipt_unreadable",
        }
    }
}

fn read(path: PathBuf) -> Result<String, ReceiptError> {
    fs::read_to_string(&path).map_err(|source| ReceiptError::Read { path, source })
}

impl Harness {
    /// Gathers the chain of custody of a run of this home, with the head of the ledger as it is now.
    pub fn receipt(&self, run_id: &RunId, pack: &Path) -> Result<Receipt, ReceiptError> {
        self.finish_addenda()?;
        let used = self.request_of(run_id)?;
        let request = match &used {
            Some(state) => Some(Box::new(self.approval_request(&state.opened.request_id)?.1)),
            None => None,
        };
        let grant = used.as_ref().and_then(RequestState::grant);
        let grant = grant.map(|(_, grant)| Box::new(grant.clone()));
        let head = self.ledger().checkpoint(clock::now())?;
        Ok(Receipt {
            schema: ReceiptSchema,
            request,
            asked: used.as_ref().and_then(|state| state.asked.clone()),
            grant,
            attestation: read(pack.join(ATTESTATION))?,
            addenda: self.files_beside(run_id)?,
            ledger_head: read(head.path)?,
        })
    }

    fn files_beside(&self, run_id: &RunId) -> Result<Vec<ReceiptFile>, ReceiptError> {
        let dir = self.home.addenda(run_id);
        let failed = |source| ReceiptError::Read {
            path: dir.clone(),
            source,
        };
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(failed(e)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let name = name.to_string_lossy().into_owned();
            // The plain file of a proof holds what its record holds.
            if name.ends_with(".dsse.json") {
                names.push(name);
            }
        }
        names.sort();
        let file = |name: String| {
            let content = read(dir.join(&name))?;
            Ok(ReceiptFile { name, content })
        };
        names.into_iter().map(file).collect()
    }
}
