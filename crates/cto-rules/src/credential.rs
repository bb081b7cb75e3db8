//! What a program prints that gives out a key: the key in its first line, and in a second one when it expires.

use cto_contract::time::Utc;

/// A key and when it expires, where that is known.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    pub key: String,
    pub expires_at: Option<Utc>,
}

/// Shows no key.
impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential")
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// Why there is no key. It never quotes what was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    #[error("its first line, which should be the key, is empty")]
    Empty,
    #[error(
        "its second line, which should say when the key expires, is no time such as 2026-11-18T12:00:00Z"
    )]
    BadExpiry,
    #[error("it printed more than two lines")]
    MoreLines,
    #[error("the key that it printed had already expired")]
    Expired,
}

/// Reads what was printed at some moment.
pub fn read(printed: &str, now: Utc) -> Result<Credential, CredentialError> {
    let mut lines = printed.lines().map(str::trim);
    let key = lines.next().unwrap_or_default();
    if key.is_empty() {
        return Err(CredentialError::Empty);
    }
    let expires_at = match lines.next().filter(|line| !line.is_empty()) {
        None => None,
        Some(line) => Some(line.parse().map_err(|_| CredentialError::BadExpiry)?),
    };
    if lines.any(|line| !line.is_empty()) {
        return Err(CredentialError::MoreLines);
    }
    if expires_at.is_some_and(|at| at <= now) {
        return Err(CredentialError::Expired);
    }
    Ok(Credential {
        key: key.to_owned(),
        expires_at,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(printed: &str) -> String {
        let now = "2026-11-18T12:00:00Z".parse().unwrap();
        match read(printed, now) {
            Ok(credential) => match credential.expires_at {
                None => credential.key,
                Some(at) => format!("{} until {at}", credential.key),
            },
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn the_first_line_is_the_key_and_the_second_its_end() {
        assert_eq!(told("sk-1"), "sk-1");
        assert_eq!(told(" sk-1 \n\n"), "sk-1");
        assert_eq!(
            told("sk-1\n2026-11-18T14:00:00+01:00\n"),
            "sk-1 until 2026-11-18T13:00:00.000000Z"
        );
        assert_eq!(told(""), "Empty");
        assert_eq!(told("\nsk-1"), "Empty");
        assert_eq!(told("sk-1\ntomorrow"), "BadExpiry");
        assert_eq!(told("sk-1\n2026-11-18T12:00:00Z"), "Expired");
        assert_eq!(told("sk-1\n2027-01-01T00:00:00Z\nmore"), "MoreLines");
        let shown = format!(
            "{:?}",
            read("sk-secret", "2026-01-01T00:00:00Z".parse().unwrap())
        );
        assert!(!shown.contains("sk-secret"), "{shown}");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_no_error_quotes_it(text in "\\PC{0,60}(\n\\PC{0,40}){0,3}") {
            let now = "2026-11-18T12:00:00Z".parse().unwrap();
            if let Err(error) = read(&text, now) {
                let line = text.lines().next().unwrap_or_default().trim();
                prop_assert!(line.len() < 20 || !error.to_string().contains(line));
            }
        }
    }
}
