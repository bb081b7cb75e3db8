//! One run: gather facts, ask the rules, record, act, record. Also what lives around runs: home, config, keys, recovery.
//!
//! The rules decide from the log alone what comes next; the runner obeys. Nothing here judges.

mod adapters;
mod addenda;
mod admissions;
mod applying;
mod approvals;
mod artifact_times;
mod authority;
mod baseline_checks;
mod cases;
mod checks;
mod clock;
mod closed;
mod codes;
mod collected;
mod commit_evidence;
mod compressed;
mod config;
mod contract_file;
mod denials;
mod doctor;
mod eligibility;
mod engines;
mod environment;
mod explain;
mod follow;
mod growing_file;
mod harness;
mod home;
mod index;
mod inputs;
mod inside;
mod installations;
mod installed;
mod journal;
mod keyring;
mod ladder;
mod landing;
mod last_scan;
pub mod launch;
mod leftovers;
mod limits;
mod listings;
mod lock;
mod model;
mod open_run;
mod outcomes;
mod overlay_note;
pub mod pack_file;
mod planning;
mod program;
mod project_files;
mod proofs;
mod protected;
mod provenance;
mod reading;
mod receipts;
mod reconcile;
mod recover;
mod redacted_file;
pub mod reference;
mod replay;
mod requests;
mod reserve;
mod residue;
mod retention;
mod room;
mod room_names;
mod sandbox;
mod sandbox_proof;
pub mod schemas;
mod sealing;
mod settings;
mod source;
mod status;
mod steps;
mod stop;
mod task;
mod test_log;
mod transfer;
mod trees;
mod trust;
mod walk;

pub use adapters::{NamedProgram, named_program};
pub use addenda::AddendaError;
pub use admissions::{
    AdmitError, KeptRecord, RecordFile, RecordsError, admission_template, admit_signed,
    admit_unsigned, check_unopposed, list_admissions, read_filled_in, read_record,
    read_record_file, scan as scan_records,
};
pub use applying::ApplyRunError;
pub use approvals::ApprovalError;
pub use authority::{check_ledger, list_operators, make_checkpoint, repair_trust};
pub use cases::{Case, CaseError, Catalog};
pub use clock::{now, random};
pub use commit_evidence::{CommitError, CommitLook, look_at_commits};
pub use config::{Config, ConfigError, read_dotenv, read_trusted_key};
pub use contract_file::{ContractFileError, check_contract, parse_contract, read_contract};
pub use cto_agent::revision as adapter_revision;
pub use cto_rules::ladder::HomeKind;
pub use doctor::machine_facts;
pub use eligibility::RouteRequest;
pub use engines::{EngineAsk, EngineError, EngineOffer};
pub use environment::{Environment, NotText};
pub use explain::explain_pack;
pub use follow::{FollowError, Follower, Look, Standing};
pub use harness::{
    ApprovalAsk, Harness, HarnessError, OpenOptions, RunError, RunRequest, RunResult,
    needs_operator, signed_admissions,
};
pub use home::{Home, HomeError, resolve_config, resolve_home};
pub use index::{IndexError, rebuild_index};
pub use inputs::InputError;
pub use inside::{NamedFileError, ReadPathError};
pub use journal::{JournalError, Observer};
pub use keyring::{
    KeyringError, key_path, make_key, next_key, rotate_key, show_key, take_next_key,
};
pub use landing::{LandError, LandingResult, RollbackPreview};
pub use listings::{list_cases, list_engines, list_runs, show_case};
pub use lock::{Holder, LockError};
pub use outcomes::{OutcomeError, OutcomeWritten};
pub use pack_file::PackFileError;
pub use project_files::{ProjectError, is_repository, project_facts};
pub use proofs::ProofError;
pub use provenance::{OpenedPack, ProvenanceError, open_pack};
pub use reading::RunsHome;
pub use receipts::ReceiptError;
pub use reconcile::Reconciled;
pub use recover::{RecoverError, Recovered, Search, live_runs, recover_all};
pub use reference::{PackRef, ReferenceError};
pub use replay::{RetellError, replay_pack};
pub use requests::{Again, NOTE_BYTES_MAX, RequestError, again};
pub use retention::{
    Buried, RetentionError, Sweeping, TombstoneError, burial, buried, collect_garbage,
};
pub use sandbox::SandboxAsk;
pub use settings::{Place, settings};
pub use stop::{StopError, stop_run};
pub use task::{RepositoryTask, Task};
pub use transfer::{
    Exported, Imported, PatchOf, TransferError, export_patch, export_tar, import_pack, write_file,
};
pub use trust::{
    NewTrust, TrustError, find_trusted, list_trust, new_trusted, revoke_key, trust_key,
};

use std::time::Duration;

/// The version that every pack names.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Seconds with three digits: what a person reads and what a report holds.
fn round_seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

/// An error and everything it rests on, in one line.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}
