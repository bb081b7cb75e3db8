//! Ways to falsify a pack, with or without a key.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cto_contract::artifact::{ATTESTATION, REPORT_JSON, SHA256SUMS};
use cto_contract::attestation::{Envelope, PAYLOAD_TYPE, Statement};
use cto_contract::ids::Digest;
use cto_evidence::canonical::{digest_of, sha256, to_canonical};
use cto_evidence::dsse::{envelope_bytes, open_envelope, seal_envelope};
use cto_evidence::key::SigningKey;
use cto_evidence::sums::write_sums;
use serde_json::Value;

use crate::sample::Pack;

impl Pack {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.sealed.report.artifacts.artifact_paths.clone()
    }

    /// Changes a file in place.
    pub(crate) fn rewrite(&self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.file(name)).unwrap();
        edit(&mut bytes);
        put(&self.file(name), &bytes);
    }

    /// Changes the report and makes its index right again, as a clever forger would.
    pub(crate) fn forge_report(&self, edit: impl FnOnce(&mut Value)) {
        self.rewrite(REPORT_JSON, |bytes| {
            let mut report: Value = serde_json::from_slice(bytes).unwrap();
            edit(&mut report);
            let paths: BTreeSet<String> = files_below(&self.path);
            report["artifact_paths"] = serde_json::json!(paths);
            let digests = report["artifact_digests"].as_object_mut().unwrap();
            digests.clear();
            for path in paths
                .iter()
                .filter(|p| ![REPORT_JSON, SHA256SUMS, ATTESTATION].contains(&p.as_str()))
            {
                digests.insert(
                    path.clone(),
                    serde_json::json!(sha256(&std::fs::read(self.path.join(path)).unwrap())),
                );
            }
            let own = digest_of(&report).unwrap();
            report["artifact_digests"][REPORT_JSON] = serde_json::json!(own);
            *bytes = serde_json::to_vec(&report).unwrap();
        });
    }

    /// Makes `SHA256SUMS` right again.
    pub(crate) fn forge_sums(&self) -> Digest {
        let mut digests = BTreeMap::new();
        for path in files_below(&self.path) {
            if path != SHA256SUMS && path != ATTESTATION {
                digests.insert(
                    path.clone(),
                    sha256(&std::fs::read(self.path.join(&path)).unwrap()),
                );
            }
        }
        let sums = write_sums(&digests);
        put(&self.file(SHA256SUMS), &sums);
        sha256(&sums)
    }

    /// Signs the statement anew after an edit, with the digest of the present `SHA256SUMS`.
    pub(crate) fn forge_statement(&self, key: &SigningKey, edit: impl FnOnce(&mut Statement)) {
        let digest = sha256(&std::fs::read(self.file(SHA256SUMS)).unwrap());
        let mut statement = self.statement();
        statement.subject[0].digest.sha256 = digest;
        statement.predicate.harness_public_key = key.public_base64();
        edit(&mut statement);
        let envelope = seal_envelope(PAYLOAD_TYPE, &to_canonical(&statement).unwrap(), key);
        put(&self.file(ATTESTATION), &envelope_bytes(&envelope).unwrap());
    }

    pub(crate) fn statement(&self) -> Statement {
        let bytes = std::fs::read(self.file(ATTESTATION)).unwrap();
        serde_json::from_slice(&open_envelope(&bytes, PAYLOAD_TYPE).unwrap().payload).unwrap()
    }

    pub(crate) fn envelope(&self) -> Envelope {
        serde_json::from_slice(&std::fs::read(self.file(ATTESTATION)).unwrap()).unwrap()
    }
}

fn files_below(top: &Path) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut open = vec![top.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else {
                out.insert(
                    entry
                        .path()
                        .strip_prefix(top)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned(),
                );
            }
        }
    }
    out
}

#[expect(clippy::disallowed_methods, reason = "tests falsify packs in place")]
pub(crate) fn put(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}
