//! Signatures of operators, in a log and beside a pack: each is checked, and whose it is only the caller can know.

use cto_contract::operator::{Signed, Statement};
use cto_contract::verify::{OperatorStanding, SignatureSeen, SignedKind, VerifyCode};
use cto_contract::words::Presence;
use cto_rules::operators::Counters;

use super::findings::Findings;
use crate::operators::PinnedOperators;
use crate::signed::shown;

/// What was signed so far, in the order in which it was.
pub(super) struct Signatures<'o> {
    pinned: Option<&'o PinnedOperators>,
    seen: Vec<SignatureSeen>,
    counters: Counters,
    has_bad: bool,
}

/// Why a signature does not count.
enum Fault {
    /// Whoever it may be: it does not hold.
    Invalid(String),
    /// It holds, and is not by an operator whom the caller named.
    Stranger(String),
}

impl<'o> Signatures<'o> {
    pub(super) fn new(pinned: Option<&'o PinnedOperators>) -> Self {
        Self {
            pinned,
            seen: Vec::new(),
            counters: Counters::default(),
            has_bad: false,
        }
    }

    /// Takes the next signature of a file; true when it holds.
    pub(super) fn take<T: Statement>(
        &mut self,
        kind: SignedKind,
        signed: &Signed<T>,
        (code, file): (VerifyCode, &str),
        findings: &mut Findings,
    ) -> bool {
        match self.judge(kind, signed) {
            Ok(()) => true,
            Err(Fault::Stranger(why)) => {
                let message = format!("{kind}: {why}");
                findings.file(VerifyCode::OperatorUnknown, file, message);
                true
            }
            Err(Fault::Invalid(why)) => {
                self.has_bad = true;
                findings.file(code, file, format!("{kind}: {why}"));
                false
            }
        }
    }

    fn judge<T: Statement>(&mut self, kind: SignedKind, signed: &Signed<T>) -> Result<(), Fault> {
        let invalid = |why: &str| Fault::Invalid(why.to_owned());
        let (statement, told) = (&signed.statement, &signed.signature);
        let (key, verified) = shown(signed).map_err(|e| {
            use std::error::Error as _;
            let below = e.source().map(|s| format!(": {s}")).unwrap_or_default();
            Fault::Invalid(format!("{e}{below}"))
        })?;
        // What an enrolment says of a plain key stands in no signature.
        let can_be = [false, true].map(|claims| verified.presence(claims));
        if !can_be.contains(&told.presence) {
            return Err(invalid("presence is not what the signature shows"));
        }
        if !self.counters.rises(&told.public_key, told.counter) {
            return Err(invalid("the counter of its key did not rise"));
        }
        if (self.seen.iter()).any(|earlier| earlier.ledger != *statement.ledger()) {
            return Err(invalid("is of another ledger than the one before it"));
        }
        let line = self.pinned.map(|pinned| {
            let (signer, ledger) = (statement.signer(), statement.ledger());
            pinned.find(&key, signer, ledger, statement.at())
        });
        let claims = match &line {
            Some(Ok(line)) => Some(line.claims_presence),
            Some(Err(_)) | None => None,
        };
        self.seen.push(SignatureSeen {
            signed: kind,
            operator: statement.signer().clone(),
            public_key: told.public_key.clone(),
            presence: told.presence,
            custody: told.custody,
            at: statement.at(),
            ledger: statement.ledger().clone(),
            standing: match claims {
                Some(_) => OperatorStanding::Known,
                None => OperatorStanding::Unknown,
            },
        });
        match (line, claims) {
            (Some(Err(why)), _) => Err(Fault::Stranger(why.to_string())),
            (_, Some(claims)) if told.presence != verified.presence(claims) => {
                Err(Fault::Invalid(match told.presence {
                    Presence::Claimed => format!(
                        "says presence `claimed`, and the operators that were named do not (`{}` behind the key says it)",
                        crate::operators::CLAIMED
                    ),
                    Presence::Uv | Presence::Up | Presence::None => {
                        "says less presence than the operators that were named".to_owned()
                    }
                }))
            }
            (Some(Ok(_)) | None, _) => Ok(()),
        }
    }

    /// Says what is known of the signers at the end; somebody who names operators wants to see one.
    pub(super) fn finish(self, findings: &mut Findings) -> (OperatorStanding, Vec<SignatureSeen>) {
        if self.pinned.is_some() && self.seen.is_empty() {
            findings.whole(
                VerifyCode::OperatorUnknown,
                "no operator signed anything: nobody approved this run, and nobody decided about it",
            );
        }
        let is_known = |seen: &SignatureSeen| seen.standing == OperatorStanding::Known;
        let standing = if self.seen.is_empty() {
            OperatorStanding::None
        } else if !self.has_bad && self.seen.iter().all(is_known) {
            OperatorStanding::Known
        } else {
            OperatorStanding::Unknown
        };
        (standing, self.seen)
    }
}
