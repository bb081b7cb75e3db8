//! Operators that a caller knows by himself: a file in OpenSSH's `allowed_signers` format, and the id of their ledger.
//!
//! Whoever pins these elsewhere needs to believe no home. A line that can't be understood whole is an error, never an
//! operator less: somebody meant something by it.

use std::io;

use cto_contract::ids::Digest;
use cto_contract::operator::OperatorName;
use cto_contract::time::Utc;

pub use crate::trust::read_operators;

use crate::sshsig::{BadPublicKey, NAMESPACE, SshPublicKey};

/// What stands behind a plain key whose enrolment says that a passphrase or an agent's question holds it.
pub const CLAIMED: &str = "presence=claimed";

/// Operators and their ledger, as the caller knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedOperators {
    pub keys: Vec<PinnedKey>,
    pub ledger: Digest,
}

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedKey {
    pub names: Vec<OperatorName>,
    pub key: SshPublicKey,
    pub claims_presence: bool,
    pub valid_after: Option<Utc>,
    pub valid_before: Option<Utc>,
}

/// A file of operators that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OperatorsError {
    #[error("could not read `{file}`")]
    Read { file: String, source: io::Error },
    #[error("`{file}` is no plain file, is too large, or is no text")]
    Unfit { file: String },
    #[error("line {line}: {why}")]
    Line { line: usize, why: LineFault },
    #[error("it names no operator")]
    Empty,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    #[error("it is not `NAMES [OPTIONS] TYPE BASE64 [COMMENT]`")]
    Shape,
    #[error("`{0}` is not the name of an operator; patterns are not understood here")]
    Name(String),
    #[error("the option `{0}` is not understood here")]
    Option(String),
    #[error("`{0}` is not a time in UTC, as `YYYYMMDDHHMMSSZ` or `YYYYMMDDZ`")]
    Time(String),
    #[error("the key can't be used: {0}")]
    Key(#[from] BadPublicKey),
    #[error("the key stands in another line too")]
    Twice,
}

/// Reads the lines of a file of operators. A line for other namespaces alone says nothing of operators and is left out.
pub fn parse_operators(text: &str) -> Result<Vec<PinnedKey>, OperatorsError> {
    let mut keys: Vec<PinnedKey> = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fault = |why| OperatorsError::Line { line: n + 1, why };
        if let Some(key) = parse_line(line).map_err(fault)? {
            if keys.iter().any(|known| known.key == key.key) {
                return Err(fault(LineFault::Twice));
            }
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return Err(OperatorsError::Empty);
    }
    Ok(keys)
}

/// Words between blanks; a blank within double quotes is no border.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut quoted) = (None, false);
    for (at, c) in line.char_indices() {
        quoted ^= c == '"';
        let is_border = !quoted && matches!(c, ' ' | '\t');
        match (start, is_border) {
            (None, false) => start = Some(at),
            (Some(from), true) => {
                words.extend(line.get(from..at));
                start = None;
            }
            (None, true) | (Some(_), false) => {}
        }
    }
    words.extend(start.and_then(|from| line.get(from..)));
    words
}

fn parse_line(line: &str) -> Result<Option<PinnedKey>, LineFault> {
    let words = words(line);
    let (names, rest) = words.split_first().ok_or(LineFault::Shape)?;
    let is_kind = |word: &&str| word.starts_with("ssh-") || word.starts_with("sk-");
    let (options, key) = match rest {
        [kind, ..] if is_kind(kind) => (None, rest),
        [options, key @ ..] => (Some(*options), key),
        [] => return Err(LineFault::Shape),
    };
    let [kind, base64, comment @ ..] = key else {
        return Err(LineFault::Shape);
    };
    let names = names.trim_matches('"').split(',').map(|name| {
        name.parse::<OperatorName>()
            .map_err(|_| LineFault::Name(name.to_owned()))
    });
    let mut read = PinnedKey {
        names: names.collect::<Result<_, _>>()?,
        key: SshPublicKey::from_openssh(&format!("{kind} {base64}"))?,
        claims_presence: comment.contains(&CLAIMED),
        valid_after: None,
        valid_before: None,
    };
    let mut is_for_us = true;
    for option in options.map(split_options).unwrap_or_default() {
        let unknown = || LineFault::Option(option.to_owned());
        let (name, value) = option.split_once('=').ok_or_else(unknown)?;
        let value = value.trim_matches('"');
        match name.to_ascii_lowercase().as_str() {
            "namespaces" => is_for_us = value.split(',').any(|n| n == NAMESPACE || n == "*"),
            "valid-after" => read.valid_after = Some(time(value)?),
            "valid-before" => read.valid_before = Some(time(value)?),
            _ => return Err(unknown()),
        }
    }
    Ok(is_for_us.then_some(read))
}

/// Options between commas; a comma within double quotes is no border.
fn split_options(options: &str) -> Vec<&str> {
    let mut quoted = false;
    options
        .split(move |c| {
            quoted ^= c == '"';
            c == ',' && !quoted
        })
        .collect()
}

/// OpenSSH's `YYYYMMDD[HHMM[SS]]Z`. Without the `Z` it means the clock on the wall of whoever reads, and so nothing here.
fn time(text: &str) -> Result<Utc, LineFault> {
    let wrong = || LineFault::Time(text.to_owned());
    let digits = text.strip_suffix('Z').ok_or_else(wrong)?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) || !matches!(digits.len(), 8 | 12 | 14) {
        return Err(wrong());
    }
    let padded = format!("{digits:0<14}");
    let part = |from: usize, to: usize| padded.get(from..to).unwrap_or_default();
    let spelled = format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14)
    );
    spelled.parse().map_err(|_| wrong())
}

/// Why a signature is not one of a known operator's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stranger {
    #[error("it was signed for another ledger than the one that was named")]
    OtherLedger,
    #[error("its key is in no line of the operators that were named")]
    UnknownKey,
    #[error("its key is not `{0}`'s among the operators that were named")]
    OtherName(OperatorName),
    #[error("its key did not count at that time")]
    OutOfTime,
}

impl PinnedOperators {
    /// The line of the key that signed, if it counts for this name, this ledger and this time.
    pub fn find(
        &self,
        key: &SshPublicKey,
        signer: &OperatorName,
        ledger: &Digest,
        at: Utc,
    ) -> Result<&PinnedKey, Stranger> {
        if *ledger != self.ledger {
            return Err(Stranger::OtherLedger);
        }
        let line = self.keys.iter().find(|line| line.key == *key);
        let line = line.ok_or(Stranger::UnknownKey)?;
        if !line.names.contains(signer) {
            return Err(Stranger::OtherName(signer.clone()));
        }
        let is_early = line.valid_after.is_some_and(|after| at < after);
        let is_late = line.valid_before.is_some_and(|before| at >= before);
        if is_early || is_late {
            return Err(Stranger::OutOfTime);
        }
        Ok(line)
    }
}

#[cfg(test)]
mod tests;
