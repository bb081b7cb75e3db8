//! Whose word counts: operators, what they signed, and how far the ledger had come.
//!
//! - Everything that a person decides is a [`Signed`](cto_contract::operator::Signed) record of the ledger. [`Authority`]
//!   is what they come to: a fold that checks every signature again, each time it is read. A record that does not hold is
//!   an error, never a decision less.
//! - A signature is asked for in one slot at a time ([`Ledger::ask`]) and enters in the transaction that checks all of it
//!   ([`Ledger::enter`]). There is no other way in.
//! - After each decision the files of trust are written from the ledger and a checkpoint is signed. Files never tell the
//!   ledger anything: one that differs is a fault ([`Ledger::standing`]).
//! - No SQL here: that is `cto-store`'s. No clock and no randomness: both come in as values. No private key of a person is
//!   ever read: `ssh-keygen` or an ssh-agent signs.

mod agent;
mod approvals;
mod authority;
mod checkpoints;
mod error;
mod files;
mod key_file;
mod ledger;
mod program;
mod slots;
mod standing;

pub use agent::{Agent, AgentError, AgentKey};
pub use approvals::{
    ConsumeError, Consumption, DecideError, Decision, RequestState, check_asking, check_decision,
};
pub use authority::{Authority, KeyUse, RecordFault};
pub use checkpoints::{CheckpointError, SecondPlace, Witnessed, read_checkpoint};
pub use error::LedgerError;
pub use files::{ADMISSIONS, OPERATORS_FILE, TrustFiles, TrustFilesError, record_files};
pub use key_file::{KeyFile, KeyFileError, Protection, protection};
pub use ledger::Ledger;
pub use program::ProgramError;
pub use slots::{Asked, Entered, Slot, Unfinished};
pub use standing::Standing;
