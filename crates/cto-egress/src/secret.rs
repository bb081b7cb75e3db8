//! A key that goes to the upstream and nowhere else.

use std::fmt;
use std::sync::Arc;

/// Longest key that is taken.
const KEY_BYTES_MAX: usize = 8 * 1024;

/// A key. It can be put into a request; it cannot be shown.
#[derive(Clone)]
pub struct Secret(Arc<str>);

/// Why a text is no key. It never quotes the text.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SecretError {
    #[error("the key is empty")]
    Empty,
    #[error("the key is longer than {KEY_BYTES_MAX} bytes")]
    TooLong,
    #[error("the key holds a character that no header can hold, such as a space or a line end")]
    Unprintable,
}

impl Secret {
    /// Takes a key, without the white space around it.
    pub fn new(text: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(SecretError::Empty);
        }
        if text.len() > KEY_BYTES_MAX {
            return Err(SecretError::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SecretError::Unprintable);
        }
        Ok(Self(text.into()))
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_printable_word_and_is_never_shown() {
        let made = |text: &str| Secret::new(text).map(|secret| format!("{secret:?}"));
        assert_eq!(made(" sk-1234\n"), Ok("Secret(…)".to_owned()));
        assert_eq!(made(" \n"), Err(SecretError::Empty));
        assert_eq!(made("a\r\nX: y"), Err(SecretError::Unprintable));
        assert_eq!(made("schlüssel"), Err(SecretError::Unprintable));
        assert_eq!(
            made(&"x".repeat(KEY_BYTES_MAX + 1)),
            Err(SecretError::TooLong)
        );
    }
}
