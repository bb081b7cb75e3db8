//! Tombstones: written when a pack goes, checked when somebody asks for it.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use cto_contract::ids::{Digest, RunId};
use cto_contract::time::Utc;
use cto_contract::tombstone::{PAYLOAD_TYPE, SUFFIX, Tombstone, TombstoneSchema};
use cto_contract::trust::{Origin, TrustedKey};
use cto_evidence::canonical::{CanonicalError, to_canonical};
use cto_evidence::dsse::{EnvelopeError, envelope_bytes, open_envelope, seal_envelope};
use cto_evidence::key::{KeyError, PublicKey};
use cto_store::RunSealed;

use super::Item;
use crate::harness::Harness;
use crate::home::Home;
use crate::open_run::sync_dir;
use crate::reference::{self, ReferenceError};

/// Largest tombstone.
const TOMBSTONE_BYTES_MAX: u64 = 1 << 20;

/// A tombstone that can't be written, or that does not hold.
#[derive(Debug, thiserror::Error)]
pub enum TombstoneError {
    #[error("could not read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("could not write `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("the record has no canonical form")]
    Encode(#[from] CanonicalError),
    #[error("`{path}` is not a tombstone")]
    Envelope {
        path: PathBuf,
        source: EnvelopeError,
    },
    #[error("`{path}` is not of schema cto.tombstone/v1")]
    Schema {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("`{path}`: harness_public_key")]
    Key { path: PathBuf, source: KeyError },
    #[error("the signature of `{path}` does not hold")]
    Signature { path: PathBuf },
    #[error("`{path}` is about run {run_id}")]
    Misnamed { path: PathBuf, run_id: RunId },
}

/// A tombstone whose signature holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Buried {
    pub tombstone: Tombstone,
    /// The key that signed it.
    pub keyid: Digest,
    pub origin: Origin,
}

impl Buried {
    /// What the index shows of the run.
    pub fn row(&self) -> RunSealed {
        let t = self.tombstone.clone();
        RunSealed {
            run_id: t.run_id,
            case_id: t.case_id,
            backend: t.backend,
            stage: t.stage,
            status: t.status,
            started_at: t.run_started_at,
            finished_at: t.run_finished_at,
            blocker: t.blocker,
            failure_reason: t.failure_reason,
            changed_files: t.changed_files,
            wall_seconds: t.wall_seconds,
            pack_digest: t.pack_digest,
            keyid: t.pack_keyid,
            origin: self.origin,
            title: t.title,
            conformance: t.conformance,
            fake_baseline: t.fake_baseline,
            repository: None,
        }
    }
}

fn path_of(home: &Home, run_id: &RunId) -> PathBuf {
    home.runs().join(Tombstone::file_name(run_id))
}

/// Signs and writes the tombstone of a pack, durably. One that an earlier try left is replaced.
pub(super) fn write(
    harness: &Harness,
    row: &RunSealed,
    item: &Item,
    now: Utc,
) -> Result<(), TombstoneError> {
    let tombstone = Tombstone {
        schema: TombstoneSchema,
        run_id: row.run_id.clone(),
        case_id: row.case_id.clone(),
        backend: row.backend,
        stage: row.stage,
        title: row.title.clone(),
        conformance: row.conformance,
        fake_baseline: row.fake_baseline,
        status: row.status,
        blocker: row.blocker,
        failure_reason: row.failure_reason.clone(),
        changed_files: row.changed_files,
        wall_seconds: row.wall_seconds,
        run_started_at: row.started_at,
        run_finished_at: row.finished_at,
        pack_digest: row.pack_digest.clone(),
        pack_keyid: row.keyid.clone(),
        pack_bytes: item.bytes,
        removed_at: now,
        rule: item.reason.clone(),
        harness_public_key: harness.key.public_base64(),
    };
    let payload = to_canonical(&tombstone)?;
    let bytes = envelope_bytes(&seal_envelope(PAYLOAD_TYPE, &payload, &harness.key))?;
    let path = path_of(&harness.home, &row.run_id);
    let part = harness
        .home
        .runs()
        .join(format!(".new-{}", Tombstone::file_name(&row.run_id)));
    let written = || -> io::Result<()> {
        let mut file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .open(&part)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&part, &path)?;
        sync_dir(&harness.home.runs())
    };
    written().map_err(|source| TombstoneError::Write { path, source })
}

/// Whether a run's pack was removed and left a tombstone; what it is worth says [`burial`].
pub(crate) fn is_buried(home: &Home, run_id: &RunId) -> bool {
    path_of(home, run_id).symlink_metadata().is_ok() && !reference::is_pack(&home.pack(run_id))
}

/// Runs whose packs were removed, the oldest first.
pub fn buried(home: &Home) -> Result<Vec<RunId>, ReferenceError> {
    let dir = home.runs();
    let failed = |source| ReferenceError::Read {
        path: dir.clone(),
        source,
    };
    let mut ids = Vec::new();
    for entry in fs::read_dir(&dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let id = name
            .to_str()
            .and_then(|n| n.strip_suffix(SUFFIX)?.parse::<RunId>().ok());
        ids.extend(id.filter(|id| is_buried(home, id)));
    }
    ids.sort();
    Ok(ids)
}

/// Reads the tombstone of a run and checks its signature. None when there is none.
pub fn burial(
    home: &Home,
    run_id: &RunId,
    trusted: &[TrustedKey],
) -> Result<Option<Buried>, TombstoneError> {
    let path = path_of(home, run_id);
    match read(&path) {
        Ok(bytes) => open(&path, run_id, &bytes, trusted).map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TombstoneError::Read { path, source }),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let mut bytes = Vec::new();
    file.take(TOMBSTONE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open(
    path: &Path,
    run_id: &RunId,
    bytes: &[u8],
    trusted: &[TrustedKey],
) -> Result<Buried, TombstoneError> {
    let path = || path.to_owned();
    let opened = open_envelope(bytes, PAYLOAD_TYPE).map_err(|source| TombstoneError::Envelope {
        path: path(),
        source,
    })?;
    let tombstone: Tombstone =
        serde_json::from_slice(&opened.payload).map_err(|source| TombstoneError::Schema {
            path: path(),
            source,
        })?;
    let signer = PublicKey::from_base64(&tombstone.harness_public_key).map_err(|source| {
        TombstoneError::Key {
            path: path(),
            source,
        }
    })?;
    if !opened.is_signed_by(&signer) {
        return Err(TombstoneError::Signature { path: path() });
    }
    if tombstone.run_id != *run_id {
        return Err(TombstoneError::Misnamed {
            path: path(),
            run_id: tombstone.run_id,
        });
    }
    let keyid = signer.keyid();
    let judged: Vec<Origin> = trusted
        .iter()
        .filter(|k| k.keyid == keyid)
        .map(|k| k.judge(tombstone.removed_at))
        .collect();
    // A revocation outweighs everything else that is known.
    let origin = [Origin::Revoked, Origin::Known, Origin::Expired]
        .into_iter()
        .find(|o| judged.contains(o))
        .unwrap_or(Origin::Unknown);
    Ok(Buried {
        tombstone,
        keyid,
        origin,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cto_evidence::key::SigningKey;

    fn sample(key: &SigningKey) -> (RunId, Vec<u8>) {
        let run_id: RunId = "20260601T105222Z-a-aaaaaa".parse().unwrap();
        let at: Utc = "2026-06-01T10:52:22.5Z".parse().unwrap();
        let tombstone = Tombstone {
            schema: TombstoneSchema,
            run_id: run_id.clone(),
            case_id: "a".parse().unwrap(),
            backend: cto_contract::words::Lane::Fake,
            stage: cto_contract::words::Stage::FIXTURE,
            title: "A".to_owned(),
            conformance: false,
            fake_baseline: false,
            status: cto_contract::words::RunStatus::Pass,
            blocker: None,
            failure_reason: None,
            changed_files: 1,
            wall_seconds: Some(0.25),
            run_started_at: at,
            run_finished_at: at,
            pack_digest: Digest::from_bytes(&[1; 32]),
            pack_keyid: key.keyid(),
            pack_bytes: 7,
            removed_at: at,
            rule: "packs_days: 1".to_owned(),
            harness_public_key: key.public_base64(),
        };
        let payload = to_canonical(&tombstone).unwrap();
        let bytes = envelope_bytes(&seal_envelope(PAYLOAD_TYPE, &payload, key)).unwrap();
        (run_id, bytes)
    }

    #[test]
    fn every_flipped_byte_of_a_tombstone_is_found() {
        let key = SigningKey::from_random(&[3; 32]);
        let (run_id, bytes) = sample(&key);
        let check = |bytes: &[u8]| open(Path::new("t"), &run_id, bytes, &[]);
        assert_eq!(check(&bytes).unwrap().origin, Origin::Unknown);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            // Another key that signs for itself is a tombstone of unknown origin, which a flip can't make.
            assert!(check(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_tombstone_counts_for_its_own_run_only() {
        let (_, bytes) = sample(&SigningKey::from_random(&[3; 32]));
        let other: RunId = "20260601T105222Z-b-aaaaaa".parse().unwrap();
        assert!(matches!(
            open(Path::new("t"), &other, &bytes, &[]),
            Err(TombstoneError::Misnamed { .. })
        ));
    }
}
