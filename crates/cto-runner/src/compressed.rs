//! What stands in compressed bytes: every gzip member of a file is opened and looked at, within bounds.

use std::io::Read as _;

use cto_rules::secrets::{Finding, Known, scan_output};
use flate2::read::GzDecoder;

/// How gzip begins: its mark and the one method there is.
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// Most bytes that are taken out of one member.
const MEMBER_BYTES_MAX: u64 = 16 << 20;
/// Most members that are opened in one piece of a file.
const MEMBERS_MAX: usize = 64;

/// The first secret in a gzip member that begins in these bytes. A member that is cut, or no member at all, is read as far as it
/// goes.
pub(crate) fn scan_members(bytes: &[u8], known: &Known) -> Option<Finding> {
    let starts = bytes.windows(MAGIC.len()).enumerate();
    let starts = starts.filter(|(_, window)| *window == MAGIC);
    for (at, _) in starts.take(MEMBERS_MAX) {
        let mut plain = Vec::new();
        let member = GzDecoder::new(bytes.get(at..)?).take(MEMBER_BYTES_MAX);
        // What was read before an error is there all the same.
        let _ended = { member }.read_to_end(&mut plain);
        if let Some(found) = scan_output(&plain, known).into_iter().next() {
            let lines_before = bytes.iter().take(at).filter(|b| **b == b'\n').count();
            return Some(Finding {
                line: lines_before + 1,
                ..found
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn packed(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn known() -> Known {
        Known::new(vec![(
            "key".to_owned(),
            b"correct-horse-battery-staple".to_vec(),
        )])
    }

    #[test]
    fn a_known_value_in_any_member_is_found_also_behind_others_and_cut() {
        let secret = packed(b"some lines\nkey=correct-horse-battery-staple\nand more");
        let harmless = packed(b"nothing");
        let behind = [&harmless[..], b"\ntext\n", &secret].concat();
        let found = scan_members(&behind, &known()).unwrap();
        assert_eq!(found.rule, "known:key");
        assert!(scan_members(&secret[..secret.len() - 8], &known()).is_some());
        assert!(scan_members(&harmless, &known()).is_none());
        assert!(scan_members(b"correct-horse-battery-staple", &known()).is_none());
    }

    #[test]
    fn what_only_begins_like_a_member_is_read_as_far_as_it_goes() {
        for rest in 0..=255_u8 {
            let bytes = [&MAGIC[..], &[rest; 40]].concat();
            assert!(scan_members(&bytes, &known()).is_none());
        }
    }
}
