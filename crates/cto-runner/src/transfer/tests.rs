//! A pack that becomes another one while it is handed over.

use std::fs;
use std::path::{Path, PathBuf};

use cto_contract::artifact::{ATTESTATION, REPORT_JSON, SHA256SUMS};
use cto_contract::report::Report;
use cto_contract::words::RunStatus;
use cto_evidence::key::SigningKey;
use cto_evidence::seal::{SealInput, seal};

use super::{PatchOf, export_patch, export_tar};
use crate::provenance::open_pack;
use crate::reference::resolve_path;

/// The kept packs, which stand for those of strangers.
fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cto-evidence/tests/packs/v1")
}

fn report_of(pack: &Path) -> Report {
    serde_json::from_slice(&fs::read(pack.join(REPORT_JSON)).unwrap()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), &to).unwrap()),
        }
    }
}

/// Seals the same run once more, by somebody else and with another file.
#[expect(clippy::disallowed_methods, reason = "a test falsifies a pack")]
fn seal_again(pack: &Path) {
    let report = report_of(pack);
    for name in [REPORT_JSON, SHA256SUMS, ATTESTATION] {
        fs::remove_file(pack.join(name)).unwrap();
    }
    let said = fs::read_dir(pack.join("backend")).unwrap().next();
    fs::write(said.unwrap().unwrap().path(), "all is well\n").unwrap();
    let key = SigningKey::from_random(&[7; 32]);
    seal(pack, SealInput { report, key: &key }).unwrap();
}

#[test]
fn a_pack_that_is_replaced_after_it_was_looked_at_is_not_handed_over() {
    let dir = tempfile::tempdir().unwrap();
    let packs = fs::read_dir(kept()).unwrap().map(|e| e.unwrap().path());
    let passed = { packs }
        .find(|pack| report_of(pack).verdict.status == RunStatus::Pass)
        .unwrap();
    let pack = dir.path().join(passed.file_name().unwrap());
    copy(&passed, &pack);
    let opened = open_pack(resolve_path(&pack).unwrap(), &[], None).unwrap();
    let file = dir.path().join("x.tar");
    export_patch(&opened, &[], PatchOf::AnyOrigin).unwrap();
    export_tar(&opened, &[], &file, &[]).unwrap();
    fs::remove_file(&file).unwrap();

    seal_again(&pack);
    let refused = export_patch(&opened, &[], PatchOf::AnyOrigin).unwrap_err();
    assert_eq!(refused.code(), "pack_changed");
    let refused = export_tar(&opened, &[], &file, &[]).unwrap_err();
    assert_eq!(refused.code(), "pack_changed");
    assert!(refused.is_about_evidence() && !file.exists());
}
