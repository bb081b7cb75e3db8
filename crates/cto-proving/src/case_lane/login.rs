//! A login that gives out short-lived tokens, for the rows of the bridge.

use std::path::{Path, PathBuf};

use super::rows::{Login, Row};
use crate::failures::site::{SiteError, put};

/// Gives out `<word>-1`, `<word>-2` and so on.
pub(super) struct Mint {
    login: Login,
    word: String,
}

impl Mint {
    pub(super) fn of(row: &Row, word: String) -> Self {
        Self {
            login: row.login,
            word,
        }
    }

    fn token(&self, number: usize) -> String {
        // What an address or a header would write otherwise than it is.
        format!("{}+/={number}.", self.word)
    }

    /// What stands in every token.
    pub(super) fn word(&self) -> String {
        self.word.clone()
    }

    /// The tokens that the model refuses.
    pub(super) fn refused(&self) -> Vec<String> {
        match self.login {
            Login::RefusedOnce => vec![self.token(1)],
            Login::Variable | Login::Expiring => Vec::new(),
        }
    }

    /// Writes the program that gives them out; none where there is no login.
    pub(super) fn lay_out(&self, place: &Path) -> Result<Option<PathBuf>, SiteError> {
        let until = match self.login {
            Login::Variable => return Ok(None),
            // The harness renews it some seconds before its end: it is over at once.
            Login::Expiring => "date -u -d '+4 seconds' +%Y-%m-%dT%H:%M:%SZ\n",
            Login::RefusedOnce => "",
        };
        let (program, count) = (place.join("mint.sh"), place.join("minted"));
        let count = count.display();
        let script = format!(
            "echo x >> '{count}'\nn=$(wc -l < '{count}')\necho \"{}+/=$n.\"\n{until}",
            self.word
        );
        put(&program, &script, 0o600)?;
        Ok(Some(program))
    }
}
