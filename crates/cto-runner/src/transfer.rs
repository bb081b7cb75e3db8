//! Packs on their way out and in: a deterministic archive, and an import that trusts nothing it unpacks.

mod import;
#[cfg(test)]
mod tests;
mod unpack;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Seek as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use cto_contract::artifact::PATCH;
use cto_contract::ids::{Digest, RunId};
use cto_contract::trust::{Origin, TrustedKey};
use cto_contract::verify::{Integrity, VerifyReport};
use cto_contract::words::RunStatus;
use cto_evidence::canonical::sha256;
use cto_evidence::pack::{ENTRIES_MAX, PackDir};
use cto_evidence::verify::{VerifyOptions, verify};
use cto_evidence::withheld::{WITHHELD, may_be_withheld, write_withheld};
use cto_evidence::writer::WriteError;
use cto_store::StoreError;
use flate2::GzBuilder;

use crate::lock::LockError;
use crate::provenance::OpenedPack;
use crate::reserve::is_full;

pub(crate) use import::finish_imports;
pub use import::{Imported, import_pack};

/// Most bytes that an import unpacks, all files together.
const IMPORT_BYTES_MAX: u64 = 16 << 30;
/// "Unknown" in a gzip header: the same bytes wherever the archive is made.
const GZIP_SYSTEM_UNKNOWN: u8 = 255;

/// Why a pack could not be handed over or taken in.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("the pack `{path}` does not verify ({code}: {message})")]
    Broken {
        path: PathBuf,
        code: String,
        message: String,
    },
    #[error("`{path}` is not any more what was verified a moment ago")]
    Changed { path: PathBuf },
    #[error("run {run_id} is `{status}`; only the patch of a pass is handed over")]
    NotAPass { run_id: RunId, status: RunStatus },
    #[error("`{path}` can't be withheld: {why}")]
    NotWithheld { path: String, why: &'static str },
    #[error("`{path}` of run {run_id} is withheld from this copy of the pack")]
    Withheld { run_id: RunId, path: &'static str },
    #[error("could not read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("could not write `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("`{path}` is neither a pack nor an archive of one")]
    NotAnArchive { path: PathBuf },
    #[error("the archive can't be read")]
    Malformed(#[source] io::Error),
    #[error("the archive holds `{name}`, {why}")]
    Refused { name: String, why: &'static str },
    #[error("the archive has more than {ENTRIES_MAX} entries")]
    TooMany,
    #[error("the archive unpacks to more than {IMPORT_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the directory is called `{name}` but the pack in it is of run {run_id}")]
    Misnamed { name: String, run_id: RunId },
    #[error("run {run_id} is here already, with another content")]
    Exists { run_id: RunId },
    #[error("run {run_id} is of this home, and this is not the pack that the ledger knows of it")]
    NotTheLedgers { run_id: RunId },
    #[error("the origin of run {run_id} is {origin}")]
    OriginNotKnown { run_id: RunId, origin: Origin },
    #[error("a file of the pack could not be written")]
    Unpack(#[from] WriteError),
    #[error("the place for what comes in can't be locked")]
    Lock(#[from] LockError),
    #[error("the pack could not be indexed")]
    Store(#[from] StoreError),
    #[error("the pack could not be indexed: {0}")]
    Row(String),
}

impl TransferError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Broken { .. } => "pack_broken",
            Self::Changed { .. } => "pack_changed",
            Self::NotAPass { .. } => "run_not_passed",
            Self::NotWithheld { .. } => "withhold_refused",
            Self::Withheld { .. } => "file_withheld",
            Self::Read { .. } => "transfer_unreadable",
            Self::Write { .. } => "transfer_not_written",
            Self::NotAnArchive { .. } => "archive_unknown",
            Self::Malformed(_) => "archive_malformed",
            Self::Refused { .. } => "archive_entry_refused",
            Self::TooMany => "archive_too_many_entries",
            Self::TooLarge => "archive_too_large",
            Self::Misnamed { .. } => "archive_misnamed",
            Self::Exists { .. } => "run_exists",
            Self::NotTheLedgers { .. } => "ledger_mismatch",
            Self::OriginNotKnown { origin, .. } => match origin {
                Origin::Known | Origin::Unknown => "origin_unknown",
                Origin::Expired => "origin_expired",
                Origin::Revoked => "origin_revoked",
            },
            Self::Unpack(_) => "archive_not_unpacked",
            Self::Lock(_) => "transfer_not_written",
            Self::Store(e) => e.code(),
            Self::Row(_) => "pack_not_indexed",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<&'static str> {
        if let Self::Write { source, .. }
        | Self::Unpack(WriteError::Io { source, .. })
        | Self::Lock(LockError::Io { source, .. }) = self
            && is_full(source)
        {
            Some("free some space on its disk, then try again; nothing was taken in or left behind")
        } else if matches!(self, Self::OriginNotKnown { .. }) {
            Some(
                "get the signer's key by another way and trust it (`cto trust add`), or take it on yourself with \
                 --any-origin",
            )
        } else if matches!(self, Self::NotTheLedgers { .. }) {
            Some("do not rely on it; stop and investigate")
        } else {
            None
        }
    }

    /// True when what was given does not verify.
    pub const fn is_about_evidence(&self) -> bool {
        matches!(
            self,
            Self::Broken { .. }
                | Self::Changed { .. }
                | Self::Misnamed { .. }
                | Self::NotTheLedgers { .. }
                | Self::OriginNotKnown { .. }
        )
    }

    /// True when what was given can't be meant.
    pub const fn is_about_input(&self) -> bool {
        matches!(
            self,
            Self::NotWithheld { .. }
                | Self::Withheld { .. }
                | Self::NotAnArchive { .. }
                | Self::Malformed(_)
                | Self::Refused { .. }
                | Self::TooMany
                | Self::TooLarge
                | Self::Exists { .. }
                | Self::Read { .. }
        )
    }
}

/// Whose patch is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchOf {
    /// Of a signer whose key counts here.
    KnownOrigin,
    /// Of anybody: the caller takes it on himself.
    AnyOrigin,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    pub run_id: RunId,
    pub pack_digest: Digest,
    pub origin: Origin,
    /// Bytes of the file.
    pub bytes: u64,
    /// Files of the pack that what was written leaves out, by this export or an earlier one.
    pub withheld: Vec<String>,
}

/// Verifies a pack that was opened. What is read of it afterwards is held against the list that was read then: a pack in
/// somebody else's directory can be another one at every look.
fn check_opened(
    opened: &OpenedPack,
    trusted: &[TrustedKey],
) -> Result<(VerifyReport, RunId, Digest), TransferError> {
    let checked = check(&opened.pack, opened.run_id.as_ref(), trusted)?;
    match opened.is_pack(&checked.2) {
        true => Ok(checked),
        false => Err(TransferError::Changed {
            path: opened.pack.clone(),
        }),
    }
}

/// Verifies a pack, whoever sealed it, and says what the keys make of who did.
fn check(
    pack: &Path,
    expect: Option<&RunId>,
    trusted: &[TrustedKey],
) -> Result<(VerifyReport, RunId, Digest), TransferError> {
    let options = VerifyOptions {
        trusted: trusted.to_vec(),
        expect_run: expect.cloned(),
        integrity_only: true,
        ..VerifyOptions::default()
    };
    let verified = verify(pack, &options);
    let known = verified.run_id.clone().zip(verified.pack_digest.clone());
    match known {
        Some((run_id, digest)) if verified.integrity == Integrity::Ok && verified.ok => {
            Ok((verified, run_id, digest))
        }
        _ => {
            let first = verified.errors.first();
            Err(TransferError::Broken {
                path: pack.to_owned(),
                code: first.map_or_else(|| "not_a_pack".to_owned(), |e| e.code.to_string()),
                message: first.map_or_else(String::new, |e| e.message.clone()),
            })
        }
    }
}

/// Writes the archive of a pack that verifies: gzip when the name ends in `gz`. Same pack, same bytes.
///
/// The files of `withhold` are left out and named in the archive's `WITHHELD`, with those that were withheld before.
pub fn export_tar(
    opened: &OpenedPack,
    trusted: &[TrustedKey],
    file: &Path,
    withhold: &[String],
) -> Result<Exported, TransferError> {
    let pack = opened.pack.as_path();
    let (verified, run_id, pack_digest) = check_opened(opened, trusted)?;
    let origin = verified.origin;
    let withheld = withheld_in_all(pack, verified.withheld, withhold)?;
    let zipped = file
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("gz") || e.eq_ignore_ascii_case("tgz"));
    let bytes = write_whole(file, |out| {
        let out = BufWriter::with_capacity(1 << 20, out);
        if zipped {
            let gzip = GzBuilder::new()
                .mtime(0)
                .operating_system(GZIP_SYSTEM_UNKNOWN)
                .write(out, flate2::Compression::default());
            archive(pack, &run_id, &withheld, gzip)?
                .finish()?
                .into_inner()
                .map_err(io::IntoInnerError::into_error)
        } else {
            archive(pack, &run_id, &withheld, out)?
                .into_inner()
                .map_err(io::IntoInnerError::into_error)
        }
    })?;
    Ok(Exported {
        run_id,
        pack_digest,
        origin,
        bytes,
        withheld: withheld.into_iter().collect(),
    })
}

/// What the archive leaves out: what the pack lacks already, and what is asked for, if that may be and is there.
fn withheld_in_all(
    pack: &Path,
    before: Vec<String>,
    asked: &[String],
) -> Result<BTreeSet<String>, TransferError> {
    let dir = PackDir::open(pack).map_err(|source| TransferError::Read {
        path: pack.to_owned(),
        source,
    })?;
    let here: BTreeSet<String> = dir.walk().files.into_iter().map(|f| f.path).collect();
    let mut all: BTreeSet<String> = before.into_iter().collect();
    for path in asked {
        let refuse = |why| TransferError::NotWithheld {
            path: path.clone(),
            why,
        };
        if !may_be_withheld(path) {
            return Err(refuse(
                "only patch.diff, test.log and files under backend/ may be",
            ));
        }
        if !here.contains(path) {
            return Err(refuse("the pack has no such file"));
        }
        all.insert(path.clone());
    }
    Ok(all)
}

fn archive<W: Write>(
    pack: &Path,
    run_id: &RunId,
    withheld: &BTreeSet<String>,
    out: W,
) -> io::Result<W> {
    let dir = PackDir::open(pack)?;
    let mut builder = tar::Builder::new(out);
    builder.mode(tar::HeaderMode::Deterministic);
    let mut append = |path: &str, size: u64, bytes: &mut dyn io::Read| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(size);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        let name = Path::new(run_id.as_str()).join(path);
        builder.append_data(&mut header, name, bytes.take(size))
    };
    let mut list = Some(write_withheld(withheld)).filter(|list| !list.is_empty());
    for listed in dir.walk().files {
        // The list in its place among the others: who exports an import again gets the same bytes.
        if listed.path.as_str() >= WITHHELD
            && let Some(list) = list.take()
        {
            append(WITHHELD, list.len() as u64, &mut list.as_slice())?;
        }
        if listed.path == WITHHELD || withheld.contains(&listed.path) {
            continue;
        }
        let mut file = dir
            .open_listed(&listed)
            .map_err(|e| io::Error::other(e.message))?;
        append(&listed.path, listed.size, &mut file)?;
    }
    if let Some(list) = list {
        append(WITHHELD, list.len() as u64, &mut list.as_slice())?;
    }
    builder.into_inner()
}

/// Reads the patch of a pack that verifies and passed, and whose signer is known unless that is not asked for.
pub fn export_patch(
    opened: &OpenedPack,
    trusted: &[TrustedKey],
    of: PatchOf,
) -> Result<(Exported, Vec<u8>), TransferError> {
    let pack = opened.pack.as_path();
    let (verified, run_id, pack_digest) = check_opened(opened, trusted)?;
    let origin = verified.origin;
    if of == PatchOf::KnownOrigin && origin != Origin::Known {
        return Err(TransferError::OriginNotKnown { run_id, origin });
    }
    match verified.status {
        Some(RunStatus::Pass) => {}
        Some(status @ (RunStatus::Fail | RunStatus::Blocked)) => {
            return Err(TransferError::NotAPass { run_id, status });
        }
        None => {
            return Err(TransferError::NotAPass {
                run_id,
                status: RunStatus::Blocked,
            });
        }
    }
    if verified.withheld.iter().any(|path| path == PATCH) {
        return Err(TransferError::Withheld {
            run_id,
            path: PATCH,
        });
    }
    let path = pack.join(PATCH);
    let failed = |source| TransferError::Read {
        path: path.clone(),
        source,
    };
    let mut bytes = Vec::new();
    PackDir::open(pack)
        .and_then(|dir| dir.open_path(PATCH))
        .map_err(failed)?
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if opened.sum_of(PATCH).flatten() != Some(&sha256(&bytes)) {
        return Err(TransferError::Changed { path });
    }
    Ok((
        Exported {
            run_id,
            pack_digest,
            origin,
            bytes: bytes.len() as u64,
            withheld: verified.withheld,
        },
        bytes,
    ))
}

/// Writes bytes to a file that appears whole or not at all.
pub fn write_file(file: &Path, bytes: &[u8]) -> Result<(), TransferError> {
    write_whole(file, |mut out| {
        out.write_all(bytes)?;
        Ok(out)
    })
    .map(drop)
}

fn write_whole(
    file: &Path,
    fill: impl FnOnce(File) -> io::Result<File>,
) -> Result<u64, TransferError> {
    let failed = |source| TransferError::Write {
        path: file.to_owned(),
        source,
    };
    let name = file
        .file_name()
        .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".part-{}", std::process::id()));
    let part = file.with_file_name(hidden);
    let written = File::options()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&part)
        .and_then(fill)
        .and_then(|mut out| {
            out.sync_all()?;
            let bytes = out.stream_position()?;
            fs::rename(&part, file)?;
            Ok(bytes)
        });
    written.map_err(|source| {
        // The part is ours alone; the file that was asked for is as it was.
        fs::remove_file(&part).ok();
        failed(source)
    })
}
