//! One byte flipped, anywhere: always found.

use std::collections::BTreeSet;

use cto_contract::artifact::{ATTESTATION, SHA256SUMS};
use cto_contract::verify::Integrity;
use cto_evidence::verify::verify;
use proptest::prelude::*;

use crate::forge::put;
use crate::sample::{self, Pack};
use crate::{check, known};

/// Positions that stand for all: ends, every newline, the first and last of every byte value, and every `step`-th;
/// all of a small file.
fn position_classes(bytes: &[u8], step: usize) -> BTreeSet<usize> {
    if bytes.len() <= 256 {
        return (0..bytes.len()).collect();
    }
    let mut out: BTreeSet<usize> = (0..bytes.len()).step_by(step).collect();
    out.insert(bytes.len() - 1);
    out.extend(
        bytes
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'\n')
            .map(|(i, _)| i),
    );
    for value in 0..=u8::MAX {
        out.extend(bytes.iter().position(|b| *b == value));
        out.extend(bytes.iter().rposition(|b| *b == value));
    }
    out
}

#[test]
fn a_flip_in_every_position_class_of_every_file_is_found() {
    let pack = sample::pass().seal();
    let options = known(&pack);
    let mut flips = 0;
    for name in pack.names() {
        let good = std::fs::read(pack.file(&name)).unwrap();
        // What no digest of another file covers is flipped in more places; 11 meets every place of a base64 group.
        let step = if name == ATTESTATION || name == SHA256SUMS {
            11
        } else {
            97
        };
        for at in position_classes(&good, step) {
            let mut bad = good.clone();
            bad[at] ^= if flips % 2 == 0 { 1 } else { 0x20 };
            put(&pack.file(&name), &bad);
            let report = verify(&pack.path, &options);
            assert!(
                !report.ok && report.integrity == Integrity::Broken,
                "{name} at {at}"
            );
            flips += 1;
        }
        put(&pack.file(&name), &good);
    }
    assert!(flips > 700, "{flips}");
    assert!(check(&pack).ok);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn any_flip_anywhere_is_found(file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), xor in 1_u8..) {
        thread_local! {
            static PACK: Pack = sample::pass().seal();
        }
        PACK.with(|pack| {
            let names = pack.names();
            let name = &names[file.index(names.len())];
            let good = std::fs::read(pack.file(name)).unwrap();
            if good.is_empty() {
                return;
            }
            let mut bad = good.clone();
            bad[at.index(good.len())] ^= xor;
            put(&pack.file(name), &bad);
            let report = check(pack);
            put(&pack.file(name), &good);
            assert!(!report.ok && report.integrity == Integrity::Broken, "{name}");
        });
    }

    #[test]
    fn random_bytes_in_any_file_never_panic(file in any::<prop::sample::Index>(), bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        thread_local! {
            static PACK: Pack = sample::pass().seal();
        }
        PACK.with(|pack| {
            let names = pack.names();
            let name = &names[file.index(names.len())];
            let good = std::fs::read(pack.file(name)).unwrap();
            put(&pack.file(name), &bytes);
            let report = check(pack);
            put(&pack.file(name), &good);
            assert!(!report.ok || bytes == good, "{name}");
        });
    }
}
