//! One id type per thing; none can hold text of the wrong shape.

use crate::text;
use crate::time::Utc;

/// An id that does not have the shape of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a {what} (expected {pattern})")]
pub struct BadId {
    what: &'static str,
    shown: String,
    pattern: &'static str,
}

impl BadId {
    pub(crate) fn new(what: &'static str, text: &str, pattern: &'static str) -> Self {
        Self {
            what,
            shown: text::shorten(text, 80),
            pattern,
        }
    }
}

fn is_lower_hex(text: &str, len: usize) -> bool {
    text.len() == len
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn is_slug(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!(bytes.first(), Some(b) if b.is_ascii_lowercase() || b.is_ascii_digit())
        && bytes.len() <= 64
        && bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

fn is_run_id(text: &str) -> bool {
    let Some((stamp, rest)) = text.split_once('-') else {
        return false;
    };
    let Some((name, suffix)) = rest.rsplit_once('-') else {
        return false;
    };
    let stamp_ok = stamp.len() == 16
        && stamp.bytes().enumerate().all(|(i, b)| match i {
            8 => b == b'T',
            15 => b == b'Z',
            _ => b.is_ascii_digit(),
        });
    stamp_ok
        && is_slug(name)
        && suffix.len() == RunId::SUFFIX_LEN
        && suffix
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

checked_string!(
    /// The id of a case: also its directory name.
    pub struct CaseId, "case id", "^[a-z0-9][a-z0-9-]{0,63}$", is_slug
);
checked_string!(
    /// The id of a run: `<UTC basic timestamp>-<case or matrix id>-<unique suffix>`.
    pub struct RunId, "run id", "^[0-9]{8}T[0-9]{6}Z-[a-z0-9][a-z0-9-]{0,63}-[a-z0-9]{6}$", is_run_id
);
checked_string!(
    /// A SHA-256 digest, 64 lower-case hex digits.
    pub struct Digest, "SHA-256 digest", "^[0-9a-f]{64}$", |t| is_lower_hex(t, 64)
);
checked_string!(
    /// A git tree id, 40 lower-case hex digits.
    pub struct TreeId, "git tree id", "^[0-9a-f]{40}$", |t| is_lower_hex(t, 40)
);
checked_string!(
    /// A git commit id, 40 lower-case hex digits.
    pub struct CommitId, "git commit id", "^[0-9a-f]{40}$", |t| is_lower_hex(t, 40)
);
checked_string!(
    /// The random value that ties every artifact of a pack to one run.
    pub struct Nonce, "nonce", "^[0-9a-f]{64}$", |t| is_lower_hex(t, 64)
);
checked_string!(
    /// The id of an Eligibility Decision: `ed-` and the first sixteen digits of its facts' digest.
    pub struct DecisionId, "decision id", "^ed-[0-9a-f]{16}$",
    |t| t.strip_prefix("ed-").is_some_and(|rest| is_lower_hex(rest, 16))
);

impl RunId {
    /// Length of the unique suffix.
    pub const SUFFIX_LEN: usize = 6;
    const ALPHABET: &'static [u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

    /// Builds the id of a run that starts at `at`, unique by `entropy`.
    pub fn compose(at: Utc, name: &CaseId, entropy: [u8; Self::SUFFIX_LEN]) -> Self {
        let suffix: String = entropy
            .iter()
            .map(|b| char::from(Self::ALPHABET[usize::from(b % 32)]))
            .collect();
        Self(format!("{}-{name}-{suffix}", at.basic()))
    }
}

impl Digest {
    /// Writes 32 bytes as hex.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(to_hex(bytes))
    }

    /// The first twelve digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

impl Nonce {
    /// Makes a nonce of 32 random bytes.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(to_hex(bytes))
    }
}

impl DecisionId {
    /// Derives the id from the digest of the facts: same facts, same id.
    pub fn of(facts: &Digest) -> Self {
        Self(format!("ed-{}", &facts.as_str()[..16]))
    }
}

/// Lower-case hex of bytes.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]])
        .map(char::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_has_three_parts_and_nothing_else() {
        let ok = |t: &str| t.parse::<RunId>().is_ok();
        assert!(ok("20260601T105222Z-r1-src-string-slugify-k3v9qd"));
        for bad in [
            "",
            "latest",
            "20260601T105222Z-k3v9qd",
            "20260601T105222Z-a-K3v9qd",
            "../20260601T105222Z-a-k3v9qd",
            "20260601T105222Z-a/b-k3v9qd",
            "20260601T105222-a-k3v9qd",
            "20260601T105222Z-a-k3v9q",
        ] {
            assert!(!ok(bad), "{bad}");
        }
    }

    #[test]
    fn a_composed_run_id_parses() {
        let at: Utc = "2026-06-01T10:52:22.5Z".parse().unwrap();
        let id = RunId::compose(at, &"r1".parse().unwrap(), [0, 31, 32, 255, 7, 9]);
        assert_eq!(id.as_str(), "20260601T105222Z-r1-0z0z79");
        assert!(is_run_id(id.as_str()));
    }
}
