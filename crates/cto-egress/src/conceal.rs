//! What an upstream says about itself or our key does not reach the agent.

use std::fmt;

/// Stands in for the bytes of a key; as many as there were, so that no length changes.
const MASK: u8 = b'*';

/// Words that give an endpoint or a key away. They are looked for and never shown.
pub(crate) struct Telling(pub(crate) Vec<String>);

impl Telling {
    /// Whether a text holds one of them, in whatever case.
    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        self.0.iter().any(|word| {
            let word = word.as_bytes();
            !word.is_empty()
                && text
                    .windows(word.len())
                    .any(|window| window.eq_ignore_ascii_case(word))
        })
    }
}

impl fmt::Debug for Telling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Telling({} words)", self.0.len())
    }
}

/// Overwrites keys in a stream, also where they lie across pieces.
///
/// Only bytes that could be the beginning of a key are held back, so the end of an event is never late.
pub(crate) struct KeyMask {
    keys: Vec<Vec<u8>>,
    held: Vec<u8>,
}

impl KeyMask {
    pub(crate) fn new<'k>(keys: impl IntoIterator<Item = &'k [u8]>) -> Self {
        let keys = keys.into_iter().filter(|key| !key.is_empty());
        Self {
            keys: keys.map(<[u8]>::to_vec).collect(),
            held: Vec::new(),
        }
    }

    /// Takes bytes and returns those that are settled.
    pub(crate) fn push(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        if self.keys.is_empty() {
            return bytes;
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(&bytes);
        for key in &self.keys {
            let mut at = 0;
            while let Some(window) = all.get(at..at + key.len()) {
                if window == key {
                    all[at..at + key.len()].fill(MASK);
                    at += key.len();
                } else {
                    at += 1;
                }
            }
        }
        let open = |key: &Vec<u8>| {
            let longest = all.len().min(key.len() - 1);
            let mut counts = (1..=longest).rev();
            counts.find(|&count| all.ends_with(&key[..count]))
        };
        let open = self.keys.iter().filter_map(open).max().unwrap_or(0);
        self.held = all.split_off(all.len() - open);
        all
    }

    /// Returns what was held back: it did not become a key.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_key_is_overwritten_wherever_the_stream_is_cut(
            before in "[a-z]{0,20}", after in "[a-z]{0,20}", size in 1_usize..12,
        ) {
            let text = format!("{before}sk-sk-9{after}sk-");
            let mut mask = KeyMask::new([b"other-key".as_slice(), b"sk-sk-9"]);
            let mut out = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                out.extend(mask.push(piece.to_vec()));
            }
            out.extend(mask.finish());
            prop_assert_eq!(String::from_utf8(out).unwrap(), format!("{before}*******{after}sk-"));
        }
    }

    #[test]
    fn the_end_of_an_event_is_not_held_back() {
        let mut mask = KeyMask::new([b"sk-123456789".as_slice()]);
        assert_eq!(mask.push(b"data: x\n\n".to_vec()), b"data: x\n\n");
    }

    #[test]
    fn an_endpoint_is_found_in_any_case() {
        let words = Telling(vec!["m.example".to_owned()]);
        assert!(words.is_in(b"upstream M.Example:80 is down"));
        assert!(!words.is_in(b"upstream is down"));
    }
}
