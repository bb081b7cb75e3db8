//! Object ids as git computes them, without running git.

use std::fmt;
use std::str::FromStr;

use sha1::{Digest, Sha1};

/// A git object id (SHA-1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid([u8; 20]);

impl Oid {
    pub const fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// Returns the id of a blob with this content.
    pub fn of_blob(content: &[u8]) -> Self {
        let mut hasher = BlobHasher::new(content.len() as u64);
        hasher.update(content);
        hasher.finish()
    }

    /// Returns the 40 digits; lists for git have them by the ten thousand.
    pub(crate) fn to_hex(self) -> [u8; 40] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 40];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        hex
    }

    /// Reads 40 lower-case digits.
    pub(crate) fn from_hex(digits: &[u8; 40]) -> Option<Self> {
        let (mut bytes, mut seen) = ([0; 20], 0);
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let (high, low) = (NIBBLES[usize::from(pair[0])], NIBBLES[usize::from(pair[1])]);
            seen |= high | low;
            *byte = high << 4 | low;
        }
        (seen < 16).then_some(Self(bytes))
    }

    pub(crate) fn of_tree(content: &[u8]) -> Self {
        let mut sha = Sha1::new();
        sha.update(format!("tree {}\0", content.len()));
        sha.update(content);
        Self(sha.finalize().into())
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.to_hex()).unwrap_or_default())
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 40 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an object id is 40 lower-case hexadecimal digits")]
pub struct NotAnOid;

impl FromStr for Oid {
    type Err = NotAnOid;

    fn from_str(text: &str) -> Result<Self, NotAnOid> {
        let digits = text.as_bytes().try_into().map_err(|_| NotAnOid)?;
        Self::from_hex(digits).ok_or(NotAnOid)
    }
}

/// The value of each digit, and [`NO_DIGIT`] for every other byte.
const NIBBLES: [u8; 256] = {
    let mut nibbles = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        nibbles[b"0123456789abcdef"[value] as usize] = value as u8;
        value += 1;
    }
    nibbles
};
const NO_DIGIT: u8 = 0xff;

/// The id of a whole tree: equal ids mean equal names, modes, bytes and link targets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeId(Oid);

impl TreeId {
    pub(crate) const fn new(oid: Oid) -> Self {
        Self(oid)
    }

    pub const fn oid(&self) -> &Oid {
        &self.0
    }
}

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for TreeId {
    type Err = NotAnOid;

    fn from_str(text: &str) -> Result<Self, NotAnOid> {
        text.parse().map(Self)
    }
}

/// Hashes a blob piece by piece; git puts the length first, so it has to be known before the bytes are.
pub(crate) struct BlobHasher(Sha1);

impl BlobHasher {
    pub(crate) fn new(size: u64) -> Self {
        let mut sha = Sha1::new();
        sha.update(format!("blob {size}\0"));
        Self(sha)
    }

    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn finish(self) -> Oid {
        Oid(self.0.finalize().into())
    }
}
