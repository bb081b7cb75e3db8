//! The errors that were found, bounded: a hostile pack must not fill the memory with them.

use cto_contract::text;
use cto_contract::verify::{VerifyCode, VerifyError};

/// Most errors that are kept.
const FINDINGS_MAX: usize = 1000;
/// Longest message.
const MESSAGE_CHARS_MAX: usize = 500;

#[derive(Debug, Default)]
pub(super) struct Findings {
    errors: Vec<VerifyError>,
    integrity_broken: bool,
}

impl Findings {
    /// Adds an error about a file.
    pub(super) fn file(&mut self, code: VerifyCode, file: &str, message: impl AsRef<str>) {
        self.push(VerifyError {
            code,
            file: Some(text::shorten(file, 400)),
            message: text::shorten(message.as_ref(), MESSAGE_CHARS_MAX),
        });
    }

    /// Adds an error about the pack as a whole.
    pub(super) fn whole(&mut self, code: VerifyCode, message: impl AsRef<str>) {
        self.push(VerifyError {
            code,
            file: None,
            message: text::shorten(message.as_ref(), MESSAGE_CHARS_MAX),
        });
    }

    /// Adds an error unless `holds`.
    pub(super) fn need(&mut self, holds: bool, code: VerifyCode, file: &str, message: &str) {
        if !holds {
            self.file(code, file, message);
        }
    }

    pub(super) fn push(&mut self, error: VerifyError) {
        self.integrity_broken |= breaks_integrity(error.code);
        if self.errors.len() < FINDINGS_MAX {
            self.errors.push(error);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub(super) fn is_integrity_broken(&self) -> bool {
        self.integrity_broken
    }

    pub(super) fn into_errors(self) -> Vec<VerifyError> {
        self.errors
    }
}

/// False for what is wrong about the question or the signer, not about the pack.
fn breaks_integrity(code: VerifyCode) -> bool {
    !matches!(
        code,
        VerifyCode::SubjectMismatch
            | VerifyCode::ExpectationMismatch
            | VerifyCode::OperatorUnknown
            | VerifyCode::OriginUnknown
            | VerifyCode::OriginExpired
            | VerifyCode::OriginRevoked
    )
}
