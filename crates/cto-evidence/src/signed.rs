//! Statements of operators: what is signed, and whether a signature on a record is what the record says of it.

use cto_contract::operator::{OperatorSignature, Signed, Statement};

use crate::canonical::{CanonicalError, to_canonical};
use crate::sshsig::{BadPublicKey, SshPublicKey, SshSig, SshSigError, Verified};

/// A signed record that does not hold.
#[derive(Debug, thiserror::Error)]
pub enum SignedError {
    /// The statement can't be written in the form that is signed.
    #[error("the statement has no canonical form")]
    Canonical(#[from] CanonicalError),
    /// The key in the record is no key.
    #[error("the public key can't be used")]
    Key(#[from] BadPublicKey),
    /// The signature does not hold.
    #[error("the signature can't be accepted")]
    Signature(#[from] SshSigError),
    /// Presence, custody or counter beside the signature are not those in it.
    #[error("the record says more of its signature than the signature shows")]
    Told,
}

/// Puts a signature beside its statement, with what it shows. `claims_presence` is what the enrolment says of a plain key.
pub fn join<T: Statement>(
    statement: T,
    signature: &SshSig,
    claims_presence: bool,
) -> Result<Signed<T>, SignedError> {
    let verified = signature.verify(&signature.key, &to_canonical(&statement)?)?;
    Ok(Signed {
        statement,
        signature: OperatorSignature {
            public_key: signature.key.to_openssh(),
            presence: verified.presence(claims_presence),
            custody: verified.custody(),
            counter: verified.state.map(|state| state.counter),
            armour: signature.to_armour(),
        },
    })
}

/// Reads what a signature shows, whatever the record says of it beside.
pub fn shown<T: Statement>(signed: &Signed<T>) -> Result<(SshPublicKey, Verified), SignedError> {
    let told = &signed.signature;
    let key = SshPublicKey::from_openssh(&told.public_key)?;
    let message = to_canonical(&signed.statement)?;
    let verified = SshSig::from_record(&told.armour)?.verify(&key, &message)?;
    let holds = told.public_key == key.to_openssh()
        && told.custody == verified.custody()
        && told.counter == verified.state.map(|state| state.counter);
    if holds {
        Ok((key, verified))
    } else {
        Err(SignedError::Told)
    }
}

/// Checks a record: its signature holds for its statement, by the key that it names, and shows what it says. Whose key that
/// is, others have to know.
pub fn check<T: Statement>(signed: &Signed<T>, claims_presence: bool) -> Result<(), SignedError> {
    let (_, verified) = shown(signed)?;
    if signed.signature.presence == verified.presence(claims_presence) {
        Ok(())
    } else {
        Err(SignedError::Told)
    }
}
