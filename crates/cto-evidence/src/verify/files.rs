//! Which files are there, and whether each is the one that was sealed.

use std::collections::{BTreeMap, BTreeSet};

use cto_contract::artifact::{ATTESTATION, REQUIRED, SHA256SUMS};
use cto_contract::ids::Digest;
use cto_contract::verify::VerifyCode;

use super::findings::Findings;
use crate::canonical::sha256;
use crate::chain::{ChainError, Log};
use crate::pack::PackDir;
use crate::read::{Content, read_all};
use crate::sums::read_sums;
use crate::withheld::{WITHHELD, read_withheld};

/// Everything that was read of a pack.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// All files of the pack, sorted by bytes: those that are there and, once the list was checked, those withheld.
    pub(super) paths: Vec<String>,
    pub(super) bytes: u64,
    pub(super) digests: BTreeMap<String, Digest>,
    /// What `SHA256SUMS` says.
    pub(super) sums: Option<BTreeMap<String, Digest>>,
    pub(super) pack_digest: Option<Digest>,
    pub(super) log: Option<Result<Log, ChainError>>,
    /// Sealed files that this copy says it leaves out, and does.
    pub(super) withheld: BTreeSet<String>,
    /// Lines of `test.log` that look like the end of a section.
    pub(super) ends: Vec<String>,
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
            // The list of what is withheld is about the pack; it is no file of it.
            if file.path == WITHHELD {
                files.bytes -= file.size;
            } else {
                files.paths.push(file.path.clone());
            }
            match read {
                Ok(read) => {
                    files.digests.insert(file.path.clone(), read.digest);
                    match read.content {
                        Content::Nothing => {}
                        Content::Bytes(bytes) => {
                            files.kept.insert(file.path.clone(), bytes);
                        }
                        Content::Log(log) => files.log = Some(*log),
                        Content::Ends(ends) => files.ends = ends,
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
        let withheld = self.check_withheld(findings);
        let Some(sums) = &self.sums else { return };
        for path in sums
            .keys()
            .filter(|p| !self.has(p) && !withheld.contains(*p))
        {
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
        self.paths.extend(withheld.iter().cloned());
        self.paths.sort_unstable();
        self.withheld = withheld;
    }

    /// The sealed files that this copy leaves out on purpose. A list with one wrong line excuses nothing.
    fn check_withheld(&self, findings: &mut Findings) -> BTreeSet<String> {
        let (Some(bytes), Some(sums)) = (self.bytes_of(WITHHELD), &self.sums) else {
            return BTreeSet::new();
        };
        let malformed = VerifyCode::WithheldMalformed;
        let mut listed = match read_withheld(bytes) {
            Ok(listed) => listed,
            Err(error) => {
                findings.file(malformed, WITHHELD, error.to_string());
                return BTreeSet::new();
            }
        };
        if let Some(path) = listed.iter().find(|p| !sums.contains_key(*p)) {
            findings.file(
                malformed,
                WITHHELD,
                format!("names `{path}`, which is not in SHA256SUMS"),
            );
            return BTreeSet::new();
        }
        listed.retain(|path| {
            let is_there = self.has(path);
            if is_there {
                findings.file(
                    VerifyCode::WithheldPresent,
                    path,
                    "said to be withheld, but there",
                );
            }
            !is_there
        });
        listed
    }

    /// What `SHA256SUMS` says of a file that is withheld.
    pub(super) fn digest_of_withheld(&self, path: &str) -> Option<&Digest> {
        self.sums
            .as_ref()?
            .get(path)
            .filter(|_| self.withheld.contains(path))
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
