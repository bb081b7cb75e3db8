//! Bytes of elsewhere become files aside: no links, no paths that leave, nothing special, every size capped.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, Write as _};
use std::path::{Component, Path};

use cto_contract::text::{path_text, shorten};
use cto_evidence::pack::{ENTRIES_MAX, PackDir};
use cto_evidence::writer::{PackWriter, WriteError};
use flate2::read::GzDecoder;

use super::{IMPORT_BYTES_MAX, TransferError};

const COPY_BYTES: usize = 1 << 16;
/// Most bytes of an entry that tells the name of another.
const RECORD_BYTES_MAX: u64 = 64 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Copies a pack directory, file by file.
pub(super) fn copy_directory(source: &Path, stage: &Path) -> Result<(), TransferError> {
    let dir = PackDir::open(source).map_err(|_| TransferError::NotAnArchive {
        path: source.to_owned(),
    })?;
    let listing = dir.walk();
    if let Some(problem) = listing.problems.first() {
        return Err(TransferError::Broken {
            path: source.to_owned(),
            code: problem.code.to_string(),
            message: problem.message.clone(),
        });
    }
    if listing.files.is_empty() {
        return Err(TransferError::NotAnArchive {
            path: source.to_owned(),
        });
    }
    if listing.bytes > IMPORT_BYTES_MAX {
        return Err(TransferError::TooLarge);
    }
    let writer = PackWriter::create(stage)?;
    for listed in &listing.files {
        let read = |e: io::Error| TransferError::Read {
            path: source.join(&listed.path),
            source: e,
        };
        let file = dir
            .open_listed(listed)
            .map_err(|e| read(io::Error::other(e.message)))?;
        let mut out = writer.create_new(&listed.path)?;
        let place = stage.join(&listed.path);
        copy(&mut file.take(listed.size), &mut out, &place, read)?;
    }
    Ok(())
}

/// Unpacks an archive with one top directory, and gives its name.
pub(super) fn unpack(source: &Path, stage: &Path) -> Result<String, TransferError> {
    let read = |e| TransferError::Read {
        path: source.to_owned(),
        source: e,
    };
    let mut file = File::open(source).map_err(read)?;
    if !file.metadata().map_err(read)?.is_file() {
        return Err(TransferError::NotAnArchive {
            path: source.to_owned(),
        });
    }
    let mut magic = [0; 2];
    let found = file.read(&mut magic).map_err(read)?;
    file.rewind().map_err(read)?;
    let file = BufReader::with_capacity(1 << 20, file);
    // One byte more than allowed is enough to know; headers of the archive count too.
    let cap = IMPORT_BYTES_MAX + (ENTRIES_MAX as u64) * 4096;
    let top = if found == 2 && magic == GZIP_MAGIC {
        unpack_from(GzDecoder::new(file).take(cap), stage)?
    } else {
        unpack_from(file.take(cap), stage)?
    };
    top.ok_or_else(|| TransferError::NotAnArchive {
        path: source.to_owned(),
    })
}

/// Reads the entries one by one as they stand: a reader that joins long names to their entries by itself holds each whole,
/// and a small archive can say that a name has gigabytes.
fn unpack_from(bytes: impl Read, stage: &Path) -> Result<Option<String>, TransferError> {
    let mut archive = tar::Archive::new(bytes);
    let mut top: Option<String> = None;
    let mut total = 0_u64;
    let mut writer = None;
    let mut long_name: Option<Vec<u8>> = None;
    let entries = archive.entries().map_err(TransferError::Malformed)?;
    for (count, entry) in entries.raw(true).enumerate() {
        let entry = entry.map_err(TransferError::Malformed)?;
        if count >= ENTRIES_MAX {
            return Err(TransferError::TooMany);
        }
        let kind = entry.header().entry_type();
        if let Some(reads) = name_reader(kind) {
            // One that says nothing of a name leaves the one before it as it is.
            long_name = reads(&small(entry)?)?.or(long_name);
            continue;
        }
        let name = long_name
            .take()
            .unwrap_or_else(|| entry.header().path_bytes().into_owned());
        let shown = shorten(&path_text(&name), 200);
        let refuse = |why| TransferError::Refused {
            name: shown.clone(),
            why,
        };
        let text = std::str::from_utf8(&name).map_err(|_| refuse("a name that is not UTF-8"))?;
        let leaves = |c: Component<'_>| !matches!(c, Component::Normal(_) | Component::CurDir);
        if Path::new(text).components().any(leaves) {
            return Err(refuse("a path that leaves the archive"));
        }
        let text = text.trim_start_matches("./");
        let (folder, below) = text.split_once('/').unwrap_or((text, ""));
        if top.as_deref().is_some_and(|t| t != folder) {
            return Err(refuse("which is outside its one top directory"));
        }
        if kind.is_dir() {
            if !folder.is_empty() && folder != "." {
                top = Some(folder.to_owned());
            }
            continue;
        }
        if !matches!(kind, tar::EntryType::Regular) {
            return Err(refuse("which is no regular file"));
        }
        if below.is_empty() {
            return Err(refuse("which is not in a directory"));
        }
        top = Some(folder.to_owned());
        total = total.saturating_add(entry.size());
        if total > IMPORT_BYTES_MAX {
            return Err(TransferError::TooLarge);
        }
        let writer: &PackWriter = match &mut writer {
            Some(writer) => writer,
            empty => empty.insert(PackWriter::create(stage)?),
        };
        let size = entry.size();
        let mut out = writer.create_new(below).map_err(|error| match error {
            WriteError::BadName(_) => refuse("a name that a pack may not hold"),
            WriteError::Io { ref source, .. } if is_taken(source) => {
                refuse("a name that is taken by an earlier one")
            }
            WriteError::Io { .. } => error.into(),
        })?;
        let place = stage.join(below);
        let malformed = TransferError::Malformed;
        let copied = copy(&mut entry.take(size), &mut out, &place, malformed)?;
        if copied != size {
            return Err(TransferError::Malformed(
                io::ErrorKind::UnexpectedEof.into(),
            ));
        }
    }
    Ok(top.filter(|_| writer.is_some()))
}

/// Reads the name of the entry that follows, if it says one.
type NameReader = fn(&[u8]) -> Result<Option<Vec<u8>>, TransferError>;

/// How an entry is read that only tells about the next one.
fn name_reader(kind: tar::EntryType) -> Option<NameReader> {
    if kind.is_gnu_longname() {
        Some(|bytes| {
            let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
            Ok(Some(bytes[..end].to_vec()))
        })
    } else if kind.is_pax_local_extensions() {
        Some(name_in_records)
    } else if kind.is_pax_global_extensions() {
        // About the archive as a whole: who made it, and from what.
        Some(|_| Ok(None))
    } else {
        None
    }
}

/// The path among records of the form `LENGTH KEY=VALUE`, and nothing else that would change what an entry is.
fn name_in_records(bytes: &[u8]) -> Result<Option<Vec<u8>>, TransferError> {
    let mut path = None;
    for record in tar::PaxExtensions::new(bytes) {
        let record = record.map_err(TransferError::Malformed)?;
        match record.key_bytes() {
            b"path" => path = Some(record.value_bytes().to_vec()),
            key if key == b"size" || key.starts_with(b"GNU.sparse.") => {
                return Err(TransferError::Refused {
                    name: shorten(&path_text(key), 80),
                    why: "a record that gives an entry another size",
                });
            }
            _ => {}
        }
    }
    Ok(path)
}

/// The bytes of an entry that tells about another, which needs few.
fn small(entry: tar::Entry<'_, impl Read>) -> Result<Vec<u8>, TransferError> {
    if entry.size() > RECORD_BYTES_MAX {
        return Err(TransferError::Refused {
            name: shorten(&path_text(&entry.header().path_bytes()), 200),
            why: "a record about a name that is far too long",
        });
    }
    let mut bytes = Vec::new();
    let read = entry.take(RECORD_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(TransferError::Malformed)?;
    Ok(bytes)
}

/// Copies all bytes. What can't be written is no fault of what is read.
fn copy(
    from: &mut impl Read,
    to: &mut File,
    place: &Path,
    unreadable: impl Fn(io::Error) -> TransferError,
) -> Result<u64, TransferError> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut copied = 0;
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok(copied),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(error)),
        };
        to.write_all(&buffer[..read])
            .map_err(|source| TransferError::Write {
                path: place.to_owned(),
                source,
            })?;
        copied += read as u64;
    }
}

/// Whether a name can't be made because of one before it: the same again, a file as a directory, a directory as a file.
fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::InvalidFilename
    )
}
