//! A pack of elsewhere becomes one of the packs here: wholly, or not at all.
//!
//! `incoming/<name>/` belongs to one import: its lock, the pack as it is unpacked, and from the moment when everything is
//! checked the run id that it goes by. One rename takes it in; whoever finds the rename done and the import dead enters
//! the pack into the index, and whoever does not throws it away.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use cto_contract::ids::{Digest, RunId};
use cto_contract::ledger::{Record, RunCreated};
use cto_contract::verify::{Integrity, VerifyReport};
use cto_evidence::pack::PackDir;
use cto_evidence::verify::{VerifyOptions, verify};
use cto_store::StoreError;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{TransferError, check, unpack};
use crate::clock;
use crate::harness::{Harness, index_row};
use crate::home::Home;
use crate::lock::{Holder, Lock, is_gone, maker_tag};
use crate::open_run::sync_dir;
use crate::provenance::ledger_digest;
use crate::reference::is_pack;

const LOCK: &str = "lock";
const PACK: &str = "pack";
const RUN_ID: &str = "run_id";

/// What was taken in.
#[derive(Debug, Clone)]
pub struct Imported {
    pub run_id: RunId,
    pub pack: PathBuf,
    pub verified: VerifyReport,
    /// The ledger of this home created the run.
    pub of_this_home: bool,
    /// The very same pack was here before; nothing changed.
    pub already_here: bool,
}

/// The directory of one import, held for as long as it lasts.
struct Incoming {
    dir: PathBuf,
    _lock: Lock,
}

impl Incoming {
    /// Nobody sees it before it is locked.
    fn create(home: &Home) -> Result<Self, TransferError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let all = home.incoming();
        let failed = |source| TransferError::Write {
            path: all.clone(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&all)
            .map_err(failed)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", maker_tag());
        let (hidden, dir) = (all.join(format!(".new-{name}")), all.join(name));
        // Left by a dead process that had the same number.
        cto_checkout::remove_tree(&hidden).map_err(|e| failed(io::Error::other(e)))?;
        fs::create_dir(&hidden).map_err(failed)?;
        let lock = Lock::take(&hidden.join(LOCK), &Holder::current(clock::boot_ns()))?;
        renameat_with(CWD, &hidden, CWD, &dir, RenameFlags::NOREPLACE)
            .map_err(|errno| failed(errno.into()))?;
        Ok(Self { dir, _lock: lock })
    }

    fn stage(&self) -> PathBuf {
        self.dir.join(PACK)
    }

    /// Whether the pack has been moved to where packs are: then only its entry may be missing.
    fn is_in(&self) -> bool {
        self.dir.join(RUN_ID).exists() && !self.stage().exists()
    }

    /// From here on the rename alone decides whether the pack is in.
    fn name(&self, run_id: &RunId) -> io::Result<()> {
        let mut file = File::create_new(self.dir.join(RUN_ID))?;
        file.write_all(run_id.as_str().as_bytes())?;
        file.sync_all()?;
        sync_dir(&self.dir)
    }
}

/// Takes in an archive or a pack directory of elsewhere.
pub fn import_pack(harness: &Harness, source: &Path) -> Result<Imported, TransferError> {
    let incoming = Incoming::create(&harness.home)?;
    let result = take_in(harness, source, &incoming);
    if result.is_ok() || !incoming.is_in() {
        // What can't be removed now is removed by the next command.
        cto_checkout::remove_tree(&incoming.dir).ok();
    }
    result
}

/// Finishes or undoes imports that died or failed on their way. Cheap when there is none. One that can't be finished for want
/// of space waits for the next command: until then nobody is kept from making some.
pub(crate) fn finish_imports(harness: &Harness) -> Result<(), StoreError> {
    let entries = fs::read_dir(harness.home.incoming());
    for entry in entries.into_iter().flatten().flatten() {
        let dir = entry.path();
        let name = entry.file_name();
        let maker = name.to_str().and_then(|n| n.strip_prefix(".new-"));
        if let Some(maker) = maker {
            if is_gone(maker.split('-').next().unwrap_or_default()) {
                cto_checkout::remove_tree(&dir).ok();
            }
            continue;
        }
        // Held by a living import, or gone meanwhile.
        let Ok(_lock) = Lock::take(&dir.join(LOCK), &Holder::current(clock::boot_ns())) else {
            continue;
        };
        let named = fs::read_to_string(dir.join(RUN_ID)).ok();
        let run_id: Option<RunId> = named.and_then(|name| name.parse().ok());
        if let Some(run_id) = run_id
            && !dir.join(PACK).exists()
            && is_pack(&harness.home.pack(&run_id))
        {
            // It was checked before it came in; one that does not verify any more is for whoever names it.
            if let Ok(row) = index_row(harness, &harness.home.pack(&run_id)) {
                match harness.store().index_pack(&row, clock::now()) {
                    Err(StoreError::Full { .. }) => continue,
                    entered => entered?,
                }
            }
        }
        cto_checkout::remove_tree(&dir).ok();
    }
    Ok(())
}

fn take_in(
    harness: &Harness,
    source: &Path,
    incoming: &Incoming,
) -> Result<Imported, TransferError> {
    let stage = &incoming.stage();
    let read = |e| TransferError::Read {
        path: source.to_owned(),
        source: e,
    };
    let name = if fs::metadata(source).map_err(read)?.is_dir() {
        unpack::copy_directory(source, stage)?;
        fs::canonicalize(source)
            .map_err(read)?
            .file_name()
            .and_then(|n| n.to_str())
            .map(str::to_owned)
    } else {
        Some(unpack::unpack(source, stage)?)
    };
    let (_, run_id, digest) = check(stage, None, &[])?;
    if let Some(name) = name
        && name.parse::<RunId>().is_ok_and(|named| named != run_id)
    {
        return Err(TransferError::Misnamed { name, run_id });
    }
    let of_this_home = check_own(harness, &run_id, &digest)?;
    let pack = harness.home.pack(&run_id);
    let row = index_row(harness, stage).map_err(TransferError::Row)?;
    let trusted = VerifyOptions {
        trusted: harness.config.trusted.clone(),
        expect_run: Some(run_id.clone()),
        ..VerifyOptions::default()
    };
    let verified = verify(stage, &trusted);
    if pack.symlink_metadata().is_ok() {
        let here = verify(&pack, &trusted);
        // Nothing is added to a pack, so one that brings files which the one here lacks is another.
        let same = here.integrity == Integrity::Ok
            && here.pack_digest.as_ref() == Some(&digest)
            && here.withheld.iter().all(|p| verified.withheld.contains(p));
        return if same {
            if harness.store().get(&run_id)?.is_none() {
                harness.store().index_pack(&row, clock::now())?;
            }
            Ok(Imported {
                run_id,
                pack,
                verified: here,
                of_this_home,
                already_here: true,
            })
        } else {
            Err(TransferError::Exists { run_id })
        };
    }
    let failed = |source| TransferError::Write {
        path: pack.clone(),
        source,
    };
    sync_tree(stage).map_err(failed)?;
    incoming.name(&run_id).map_err(failed)?;
    renameat_with(CWD, stage, CWD, &pack, RenameFlags::NOREPLACE)
        .map_err(|errno| failed(errno.into()))?;
    sync_dir(&harness.home.runs()).map_err(failed)?;
    harness.store().index_pack(&row, clock::now())?;
    Ok(Imported {
        run_id,
        pack,
        verified,
        of_this_home,
        already_here: false,
    })
}

/// Says whether the run is of this home. Under its id only its own pack may come back.
fn check_own(harness: &Harness, run_id: &RunId, digest: &Digest) -> Result<bool, TransferError> {
    let store = harness.store();
    let created = store.find::<Record>(&RunCreated::key(run_id))?;
    match (created, ledger_digest(store, run_id)?) {
        (_, Some(ledger)) if ledger == *digest => Ok(true),
        (None, None) => Ok(false),
        (Some(_), None) | (_, Some(_)) => Err(TransferError::NotTheLedgers {
            run_id: run_id.clone(),
        }),
    }
}

fn sync_tree(dir: &Path) -> io::Result<()> {
    let pack = PackDir::open(dir)?;
    let listing = pack.walk();
    for file in &listing.files {
        pack.open_path(&file.path)?.sync_data()?;
    }
    for sub in &listing.directories {
        sync_dir(&dir.join(sub))?;
    }
    sync_dir(dir)
}
