//! Which files are there, and whether each is the one that was sealed.

use std::collections::BTreeMap;

use cto_contract::artifact::{ATTESTATION, EVENTS, REPORT_JSON, REQUIRED, SHA256SUMS};
use cto_contract::ids::Digest;
use cto_contract::verify::VerifyCode;

use super::findings::Findings;
use crate::canonical::sha256;
use crate::chain::{ChainError, Log};
use crate::pack::PackDir;
use crate::read::{Content, read_all};
use crate::sums::read_sums;

/// Everything that was read of a pack.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// All regular files, sorted by bytes.
    pub(super) paths: Vec<String>,
    pub(super) bytes: u64,
    pub(super) digests: BTreeMap<String, Digest>,
    /// What `SHA256SUMS` says.
    pub(super) sums: Option<BTreeMap<String, Digest>>,
    pub(super) pack_digest: Option<Digest>,
    pub(super) log: Option<Result<Log, ChainError>>,
    kept: BTreeMap<String, Vec<u8>>,
}

impl Files {
    /// Reads the whole pack, every file once.
    pub(super) fn read(pack: &PackDir, findings: &mut Findings) -> Self {
        let listing = pack.walk();
        let mut files = Self {
            bytes: listing.bytes,
            ..Self::default()
        };
        for problem in listing.problems {
            findings.push(problem);
        }
        for (file, read) in listing.files.iter().zip(read_all(pack, &listing.files)) {
            files.paths.push(file.path.clone());
            match read {
                Ok(read) => {
                    files.digests.insert(file.path.clone(), read.digest);
                    match read.content {
                        Content::Nothing => {}
                        Content::Bytes(bytes) => {
                            files.kept.insert(file.path.clone(), bytes);
                        }
                        Content::Log(log) => files.log = Some(*log),
                    }
                }
                Err(error) => findings.push(error),
            }
        }
        files
    }

    /// The bytes of a file that is judged.
    pub(super) fn bytes_of(&self, path: &str) -> Option<&[u8]> {
        self.kept.get(path).map(Vec::as_slice)
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.paths
            .binary_search_by(|p| p.as_bytes().cmp(path.as_bytes()))
            .is_ok()
    }

    /// Compares the listing with `SHA256SUMS` and the required set.
    pub(super) fn check_list(&mut self, findings: &mut Findings) {
        if ![ATTESTATION, SHA256SUMS, REPORT_JSON, EVENTS]
            .iter()
            .any(|p| self.has(p))
        {
            findings.whole(
                VerifyCode::NotAPack,
                "the directory holds no file of an evidence pack",
            );
        }
        if !self.has(ATTESTATION) {
            findings.file(
                VerifyCode::NotSealed,
                ATTESTATION,
                "the attestation is missing: the pack was never sealed",
            );
        }
        if let Some(bytes) = self.bytes_of(SHA256SUMS) {
            let digest = sha256(bytes);
            match read_sums(bytes) {
                Ok(sums) => self.sums = Some(sums),
                Err(error) => {
                    findings.file(VerifyCode::SumsMalformed, SHA256SUMS, error.to_string())
                }
            }
            self.pack_digest = Some(digest);
        }
        let listed = |path: &str| self.sums.as_ref().is_some_and(|s| s.contains_key(path));
        for required in REQUIRED.iter().filter(|p| **p != ATTESTATION) {
            if !self.has(required) && !listed(required) {
                findings.file(
                    VerifyCode::FileMissing,
                    required,
                    "a required artifact is missing",
                );
            }
        }
        let Some(sums) = &self.sums else { return };
        for path in sums.keys().filter(|p| !self.has(p)) {
            findings.file(
                VerifyCode::FileMissing,
                path,
                "named in SHA256SUMS, but not there",
            );
        }
        for path in &self.paths {
            if path != SHA256SUMS && path != ATTESTATION && !sums.contains_key(path) {
                findings.file(
                    VerifyCode::FileExtra,
                    path,
                    "there, but not named in SHA256SUMS",
                );
            }
        }
    }

    /// Compares every digest with `SHA256SUMS`.
    pub(super) fn check_digests(&self, findings: &mut Findings) {
        for (path, expected) in self.sums.iter().flatten() {
            if let Some(found) = self.digests.get(path)
                && found != expected
            {
                findings.file(
                    VerifyCode::DigestMismatch,
                    path,
                    format!("has the digest {found}, SHA256SUMS says {expected}"),
                );
            }
        }
    }
}
