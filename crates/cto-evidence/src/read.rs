//! Reading all files of a pack once: the digest and the content that is judged come from the same bytes.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cto_contract::artifact;
use cto_contract::ids::Digest;
use cto_contract::verify::{VerifyCode, VerifyError};
use cto_rules::checks::is_end_line;

use crate::canonical::{HASH_BUFFER_BYTES, Hasher};
use crate::chain::{ChainError, Log, LogReader};
use crate::pack::{PackDir, PackFile, finding};
use crate::withheld::WITHHELD;

/// Largest JSON file that is judged, and largest `SHA256SUMS` and `WITHHELD`.
pub(crate) const JSON_BYTES_MAX: u64 = 64 << 20;
/// Largest log.
pub(crate) const LOG_BYTES_MAX: u64 = 4 << 30;
/// Largest patch that is judged.
pub(crate) const PATCH_BYTES_MAX: u64 = 1 << 30;
/// Below this many bytes a second thread costs more than it gives.
const PARALLEL_BYTES_MIN: u64 = 1 << 20;

/// What is kept of a file besides its digest.
#[derive(Debug)]
pub(crate) enum Content {
    Nothing,
    Bytes(Vec<u8>),
    Log(Box<Result<Log, ChainError>>),
    /// Lines that look like the end of a section.
    Ends(Vec<String>),
}

/// A file that was read.
#[derive(Debug)]
pub(crate) struct FileRead {
    pub(crate) digest: Digest,
    pub(crate) content: Content,
}

enum Role {
    Hashed,
    Kept,
    Log,
    Ends,
}

fn role(path: &str) -> (Role, u64) {
    match path {
        artifact::EVENTS => (Role::Log, LOG_BYTES_MAX),
        artifact::PATCH => (Role::Kept, PATCH_BYTES_MAX),
        artifact::REPORT_JSON
        | artifact::REPORT_MD
        | artifact::TRACE
        | artifact::ELIGIBILITY
        | artifact::TASK_CONTRACT
        | artifact::SHA256SUMS
        | artifact::ATTESTATION
        | WITHHELD => (Role::Kept, JSON_BYTES_MAX),
        artifact::TEST_LOG => (Role::Ends, u64::MAX),
        _ => (Role::Hashed, u64::MAX),
    }
}

/// Reads every file, on all cores when there is enough to do; results are in the order of `files`.
pub(crate) fn read_all(pack: &PackDir, files: &[PackFile]) -> Vec<Result<FileRead, VerifyError>> {
    let total: u64 = files.iter().map(|f| f.size).sum();
    if total < PARALLEL_BYTES_MIN {
        let mut buffer = vec![0; HASH_BUFFER_BYTES];
        return files
            .iter()
            .map(|f| read_one(pack, f, &mut buffer))
            .collect();
    }
    // Largest first, each worker takes the next: no worker is left with a large file at the end.
    let mut by_size: Vec<usize> = (0..files.len()).collect();
    by_size.sort_by_key(|i| std::cmp::Reverse(files[*i].size));
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<FileRead, VerifyError>)>> =
        Mutex::new(Vec::with_capacity(files.len()));
    rayon::scope(|scope| {
        for _ in 0..rayon::current_num_threads() {
            scope.spawn(|_| {
                let mut buffer = vec![0; HASH_BUFFER_BYTES];
                let mut mine = Vec::new();
                while let Some(&at) = by_size.get(next.fetch_add(1, Ordering::Relaxed)) {
                    mine.push((at, read_one(pack, &files[at], &mut buffer)));
                }
                results
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .append(&mut mine);
            });
        }
    });
    let mut results = results
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn read_one(pack: &PackDir, file: &PackFile, buffer: &mut [u8]) -> Result<FileRead, VerifyError> {
    let (role, limit) = role(&file.path);
    if file.size > limit {
        return Err(finding(
            VerifyCode::FileOversized,
            &file.path,
            format!("{} bytes, more than the {limit} that are read", file.size),
        ));
    }
    let opened = pack.open_listed(file)?;
    let mut hasher = Hasher::default();
    let content = match role {
        Role::Hashed => {
            feed(opened, file, buffer, |piece| hasher.update(piece))?;
            Content::Nothing
        }
        Role::Kept => {
            let mut bytes = Vec::new();
            feed(opened, file, buffer, |piece| {
                hasher.update(piece);
                bytes.extend_from_slice(piece);
            })?;
            Content::Bytes(bytes)
        }
        Role::Log => {
            let mut log = LogReader::default();
            feed(opened, file, buffer, |piece| {
                hasher.update(piece);
                log.push(piece);
            })?;
            Content::Log(Box::new(log.finish()))
        }
        Role::Ends => {
            let mut ends = EndLines::default();
            feed(opened, file, buffer, |piece| {
                hasher.update(piece);
                ends.push(piece);
            })?;
            Content::Ends(ends.finish())
        }
    };
    Ok(FileRead {
        digest: hasher.finish(),
        content,
    })
}

/// Longest line that can be the end of a section, and most of them that are kept: what a check prints can look like one.
const END_LINE_BYTES_MAX: usize = 160;
const END_LINES_MAX: usize = 1 << 20;

/// Finds the ends of sections in a log that comes in pieces.
#[derive(Default)]
struct EndLines {
    line: Vec<u8>,
    is_too_long: bool,
    found: Vec<String>,
}

impl EndLines {
    fn push(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            self.is_too_long |= self.line.len() + text.len() > END_LINE_BYTES_MAX;
            if !self.is_too_long {
                self.line.extend_from_slice(text);
            }
            if is_whole {
                self.end();
            }
        }
    }

    fn end(&mut self) {
        if !self.is_too_long && is_end_line(&self.line) && self.found.len() < END_LINES_MAX {
            let line = String::from_utf8_lossy(&self.line).into_owned();
            self.found.push(line);
        }
        self.line.clear();
        self.is_too_long = false;
    }

    fn finish(mut self) -> Vec<String> {
        self.end();
        self.found
    }
}

fn feed(
    mut opened: File,
    file: &PackFile,
    buffer: &mut [u8],
    mut sink: impl FnMut(&[u8]),
) -> Result<(), VerifyError> {
    let unreadable = |why: String| finding(VerifyCode::FileUnreadable, &file.path, why);
    let mut total = 0_u64;
    loop {
        match opened.read(buffer) {
            Ok(0) => break,
            Ok(n) => {
                total += n as u64;
                if total > file.size {
                    break;
                }
                sink(&buffer[..n]);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(unreadable(e.to_string())),
        }
    }
    if total == file.size {
        Ok(())
    } else {
        Err(unreadable("the file changed while it was read".to_owned()))
    }
}
