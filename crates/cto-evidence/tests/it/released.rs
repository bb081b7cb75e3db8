//! Packs as they were once sealed by the harness: whatever changes here, they verify for ever.

use std::path::Path;

use cto_evidence::verify::{VerifyOptions, verify};

use crate::stranger::stranger;

#[test]
fn packs_of_every_schema_verify_for_ever() {
    let packs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packs");
    let mut seen = Vec::new();
    for version in std::fs::read_dir(packs).unwrap() {
        for pack in std::fs::read_dir(version.unwrap().path()).unwrap() {
            let pack = pack.unwrap().path();
            let name = pack.file_name().unwrap().to_str().unwrap().to_owned();
            let options = VerifyOptions {
                integrity_only: true,
                asked_name: Some(name),
                ..VerifyOptions::default()
            };
            let answer = verify(&pack, &options);
            assert!(answer.ok, "{}: {:?}", pack.display(), answer.errors);
            let (_, said) = stranger(&[&pack], &[]);
            assert_eq!(said, ["ok"], "{}", pack.display());
            seen.push(answer.status.unwrap().as_str());
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, ["blocked", "fail", "pass"]);
}
