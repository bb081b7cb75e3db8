//! Whose a pack is: asked of its seal, of the keys that count here, and of this home's ledger, before it is shown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cto_contract::ids::{Digest, RunId};
use cto_contract::ledger::{Record, RunCreated, Seal};
use cto_contract::trust::{Provenance, TrustedKey};
use cto_contract::verify::VerifyError;
use cto_evidence::verify::{SealRead, read_seal};
use cto_store::{Store, StoreError};

use crate::reading::RunsHome;
use crate::reference::PackRef;

/// A pack that may be shown, and whose it is.
#[derive(Debug, Clone)]
pub struct OpenedPack {
    pub pack: PathBuf,
    /// The run: as signed, else as asked for.
    pub run_id: Option<RunId>,
    pub provenance: Provenance,
    /// What its files must hash to; none while it is not sealed.
    sums: Option<BTreeMap<String, Digest>>,
    /// The digest of that list.
    pack_digest: Option<Digest>,
}

impl OpenedPack {
    /// Whether this is the pack whose list was read.
    pub(crate) fn is_pack(&self, digest: &Digest) -> bool {
        self.pack_digest.as_ref() == Some(digest)
    }

    /// What this file must hash to: none while nothing is sealed, and none inside for a file that the seal does not name.
    pub(crate) fn sum_of(&self, name: &str) -> Option<Option<&Digest>> {
        self.sums.as_ref().map(|sums| sums.get(name))
    }
}

/// A pack that must not be shown as what it says it is.
#[derive(Debug, thiserror::Error)]
pub enum ProvenanceError {
    #[error("the seal of `{}` does not hold ({}: {})", pack.display(), error.code, error.message)]
    Seal { pack: PathBuf, error: VerifyError },
    #[error("asked for run {asked}, but the pack in its place is of run {signed}")]
    OtherRun { asked: RunId, signed: RunId },
    #[error("run {run_id} is of this home, and this is not the pack that the ledger knows of it")]
    NotTheLedgers {
        run_id: RunId,
        ledger: Digest,
        found: Digest,
    },
    #[error("run {run_id} is of this home and was sealed, but the seal of its pack is gone")]
    SealGone { run_id: RunId },
    #[error("run {run_id} is of this home and not sealed, but another key has sealed its pack")]
    NotSealedHere { run_id: RunId },
    #[error("the database can't be used")]
    Store(#[from] StoreError),
}

impl ProvenanceError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Seal { .. } => "pack_broken",
            Self::OtherRun { .. } => "subject_mismatch",
            Self::NotTheLedgers { .. } | Self::SealGone { .. } | Self::NotSealedHere { .. } => {
                "ledger_mismatch"
            }
            Self::Store(e) => e.code(),
        }
    }
}

/// Opens a pack for showing. Without a home no run is its own.
pub fn open_pack(
    found: PackRef,
    trusted: &[TrustedKey],
    place: Option<&RunsHome>,
) -> Result<OpenedPack, ProvenanceError> {
    let seal = read_seal(&found.pack, trusted).map_err(|error| ProvenanceError::Seal {
        pack: found.pack.clone(),
        error,
    })?;
    if let (Some(asked), Some(seal)) = (&found.run_id, &seal)
        && *asked != seal.run_id
    {
        return Err(ProvenanceError::OtherRun {
            asked: asked.clone(),
            signed: seal.run_id.clone(),
        });
    }
    let signed = seal.as_ref().map(|s| s.run_id.clone());
    let run_id = signed.or(found.run_id);
    let of_this_home = match (place, &run_id) {
        (Some(place), Some(run_id)) => is_own(place, run_id, seal.as_ref())?,
        (None, _) | (_, None) => false,
    };
    Ok(OpenedPack {
        pack: found.pack,
        run_id,
        provenance: Provenance {
            origin: seal.as_ref().map(|s| s.origin),
            of_this_home,
        },
        pack_digest: seal.as_ref().map(|s| s.pack_digest.clone()),
        sums: seal.map(|s| s.sums),
    })
}

/// Whether the ledger created this run and knows this very pack of it. A pack that only says so is refused.
fn is_own(
    place: &RunsHome,
    run_id: &RunId,
    seal: Option<&SealRead>,
) -> Result<bool, ProvenanceError> {
    let run_id = run_id.clone();
    match (ledger_digest(place.store(), &run_id)?, seal) {
        (Some(ledger), Some(seal)) if ledger == seal.pack_digest => Ok(true),
        (Some(ledger), Some(seal)) => Err(ProvenanceError::NotTheLedgers {
            run_id,
            ledger,
            found: seal.pack_digest.clone(),
        }),
        (Some(_), None) => Err(ProvenanceError::SealGone { run_id }),
        (None, seal) => {
            let created: Option<cto_store::Found<Record>> =
                place.store().find(&RunCreated::key(&run_id))?;
            // Between its seal and its entry a run of this home is sealed and the ledger does not know it yet.
            match seal {
                Some(seal) if created.is_some() && place.keyid().as_ref() != Some(&seal.keyid) => {
                    Err(ProvenanceError::NotSealedHere { run_id })
                }
                Some(_) | None => Ok(created.is_some()),
            }
        }
    }
}

/// The digest of the pack that the ledger knows of a run.
pub(crate) fn ledger_digest(store: &Store, run_id: &RunId) -> Result<Option<Digest>, StoreError> {
    let found = store.find::<Record>(&Seal::key(run_id))?;
    // Found by the key of a seal: no other kind has it.
    match found.map(|found| found.record) {
        Some(Record::RunSealed(seal)) => Ok(Some(seal.pack_digest)),
        Some(_) | None => Ok(None),
    }
}

/// The digest of a pack's list of files; none when there is none that can be read.
pub(crate) fn digest_on_disk(pack: &Path) -> Option<Digest> {
    read_seal(pack, &[]).ok().flatten().map(|s| s.pack_digest)
}
