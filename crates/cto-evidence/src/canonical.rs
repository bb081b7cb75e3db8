//! Bytes that everybody computes alike: RFC 8785 JSON and SHA-256.

use std::io::{self, Read};

use cto_contract::eligibility::DecisionBasis;
use cto_contract::ids::{DecisionId, Digest};
use serde::Serialize;
use serde_json::{Number, Value};
use sha2::{Digest as _, Sha256};

/// Largest integer that every JSON reader holds exactly.
const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Size of the buffer of a streaming hash: large enough to hide the system calls, small enough for the cache.
pub const HASH_BUFFER_BYTES: usize = 128 << 10;

/// A value that has no canonical form.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    /// It does not serialise at all.
    #[error("the value cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// RFC 8785 writes numbers as doubles, so a larger integer would change silently.
    #[error("the integer {0} is outside ±(2^53 - 1), so its JSON form is not exact")]
    Integer(Number),
}

/// Writes a value in its RFC 8785 form.
pub fn to_canonical<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CanonicalError> {
    let value = serde_json::to_value(value)?;
    check_integers(&value)?;
    Ok(serde_json_canonicalizer::to_vec(&value)?)
}

/// SHA-256 of a value's RFC 8785 form.
pub fn digest_of<T: Serialize + ?Sized>(value: &T) -> Result<Digest, CanonicalError> {
    to_canonical(value).map(|bytes| sha256(&bytes))
}

/// The id of an Eligibility Decision, from what it rests on.
#[expect(
    clippy::expect_used,
    reason = "words, flags and one digit always have a canonical form"
)]
pub fn decision_id(basis: &DecisionBasis<'_>) -> DecisionId {
    DecisionId::of(&digest_of(basis).expect("a decision has a canonical form"))
}

/// SHA-256 of bytes.
pub fn sha256(bytes: &[u8]) -> Digest {
    Digest::from_bytes(&Sha256::digest(bytes).into())
}

/// A SHA-256 that is fed piece by piece.
#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of everything that was added.
    pub fn finish(self) -> Digest {
        Digest::from_bytes(&self.0.finalize().into())
    }
}

/// Hashes everything a reader gives and counts it.
pub fn hash_reader(mut reader: impl Read) -> io::Result<(Digest, u64)> {
    let mut hasher = Hasher::default();
    let mut buffer = vec![0_u8; HASH_BUFFER_BYTES];
    let mut total = 0_u64;
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok((hasher.finish(), total)),
            Ok(n) => {
                hasher.update(&buffer[..n]);
                total += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn check_integers(value: &Value) -> Result<(), CanonicalError> {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
        Value::Number(n) => {
            let exact = match (n.as_u64(), n.as_i64()) {
                (Some(u), _) => u <= INTEGER_MAX,
                (None, Some(i)) => i.unsigned_abs() <= INTEGER_MAX,
                (None, None) => true,
            };
            if exact {
                Ok(())
            } else {
                Err(CanonicalError::Integer(n.clone()))
            }
        }
        Value::Array(items) => items.iter().try_for_each(check_integers),
        Value::Object(fields) => fields.values().try_for_each(check_integers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn canonical_json_sorts_keys_and_shortens_numbers() {
        let text = |v: Value| String::from_utf8(to_canonical(&v).unwrap()).unwrap();
        assert_eq!(
            text(json!({"b": 1.0, "a": [true, null], "\u{20ac}": 1e21})),
            "{\"a\":[true,null],\"b\":1,\"\u{20ac}\":1e+21}"
        );
        assert_eq!(
            text(json!({"\u{1f600}": 0, "\u{fb33}": 1})),
            "{\"\u{1f600}\":0,\"\u{fb33}\":1}"
        );
        assert_eq!(
            text(json!([1e-7, 0.000001, 123456789012345680000.0])),
            "[1e-7,0.000001,123456789012345680000]"
        );
    }

    #[test]
    fn an_integer_that_a_double_cannot_hold_is_refused() {
        assert!(to_canonical(&json!({"n": 9_007_199_254_740_991_u64})).is_ok());
        assert!(matches!(
            to_canonical(&json!({"n": 9_007_199_254_740_992_u64})),
            Err(CanonicalError::Integer(_))
        ));
        assert!(matches!(
            to_canonical(&json!([-9_007_199_254_740_992_i64])),
            Err(CanonicalError::Integer(_))
        ));
    }

    #[test]
    fn a_known_digest() {
        assert_eq!(
            sha256(b"abc").as_str(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    proptest! {
        #[test]
        fn streaming_gives_the_same_digest(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let (digest, n) = hash_reader(&bytes[..]).unwrap();
            prop_assert_eq!(digest, sha256(&bytes));
            prop_assert_eq!(n, bytes.len() as u64);
        }

        #[test]
        fn canonical_form_is_a_fixed_point(n in any::<f64>().prop_filter("finite", |f| f.is_finite()), s in any::<String>()) {
            let first = to_canonical(&json!({"n": n, s.as_str(): s})).ok();
            prop_assume!(first.is_some());
            let first = first.unwrap();
            let back: Value = serde_json::from_slice(&first).unwrap();
            if let Ok(second) = to_canonical(&back) {
                prop_assert_eq!(first, second);
            }
        }
    }
}
