//! Whose word counts, as faces show it.

use std::path::Path;

use cto_contract::admission::AdmissionKind;
use cto_contract::document::{self, DocumentError};
use cto_contract::outputs::{
    CheckpointOutput, CheckpointTag, LedgerCheckOutput, LedgerCheckTag, LedgerFinding, OperatorRow,
    OperatorsOutput, OperatorsTag, WaitingSlot,
};
use cto_contract::time::Utc;
use cto_evidence::sshsig::SshPublicKey;
use cto_ledger::{Authority, LedgerError, OPERATORS_FILE, Standing, record_files};
use cto_rules::authority::AdmissionBook;
use cto_rules::standing::{FileState, LedgerFault, REPAIR};

use crate::admissions::{KeptRecord, RecordsError, is_superseded, read_record, scan};
use crate::harness::Harness;

/// Lists the keys of all operators, those that no longer count too.
pub fn list_operators(harness: &Harness, now: Utc) -> Result<OperatorsOutput, LedgerError> {
    let ledger = harness.ledger();
    let authority = ledger.authority()?;
    let rows = authority.operators.keys.iter().map(|key| {
        let used = authority.uses.get(&key.public_key);
        OperatorRow {
            operator: key.operator.clone(),
            fingerprint: SshPublicKey::from_openssh(&key.public_key)
                .map_or_else(|_| String::new(), |public| public.fingerprint()),
            public_key: key.public_key.clone(),
            claims_presence: key.claims_presence,
            presence: used.map(|used| used.presence),
            custody: used.map(|used| used.custody),
            signatures: used.map_or(0, |used| used.count),
            added_at: key.added_at,
            revoked_at: key.revoked_at,
        }
    });
    Ok(OperatorsOutput {
        schema_version: OperatorsTag,
        ledger: ledger.id()?,
        file: harness
            .config
            .dir
            .join(OPERATORS_FILE)
            .display()
            .to_string(),
        operators: rows.collect(),
        waiting: ledger.open_slot(now)?.map(|slot| WaitingSlot {
            purpose: slot.purpose,
            expires_at: slot.expires_at,
        }),
    })
}

/// Walks the whole chain, checks every signature, and compares checkpoints and files with it.
pub fn check_ledger(harness: &Harness) -> Result<LedgerCheckOutput, LedgerError> {
    let walked = harness.store().verify_ledger()?;
    let mut errors = Vec::new();
    if let Some(broken) = walked.broken {
        errors.push(LedgerFinding {
            code: "ledger_broken".to_owned(),
            message: format!("entry {} does not hold: {}", broken.seq, broken.reason),
            hint: "restore the database from a backup".to_owned(),
        });
    }
    let ledger = harness.ledger();
    let mut output = LedgerCheckOutput {
        schema_version: LedgerCheckTag,
        ok: false,
        ledger: walked.ledger_id,
        entries: walked.entries,
        head: walked.head.map(|head| head.digest),
        unknown: walked.unknown,
        decisions: 0,
        operators: 0,
        checkpoints: 0,
        errors,
    };
    // A row that can't be read is named by the walk; the fold would only say it again.
    let authority = match ledger.authority() {
        Ok(authority) => authority,
        Err(error @ LedgerError::Forged { .. }) => {
            output.errors.push(LedgerFinding {
                code: error.code().to_owned(),
                message: crate::error_chain(&error),
                hint: error.hint().unwrap_or_default(),
            });
            return Ok(output);
        }
        Err(_) if !output.errors.is_empty() => return Ok(output),
        Err(error) => return Err(error),
    };
    let mut standing = ledger.standing(&authority)?;
    if let Ok(records) = superseded(&harness.config.dir, &authority.admissions) {
        standing.files.extend(records);
    }
    output.decisions = standing.ledger.decisions;
    output.operators = authority.operators.active().count() as u64;
    output.checkpoints = standing.ledger.witnesses.len() as u64;
    output.errors.extend(findings(&standing));
    output.ok = output.errors.is_empty();
    Ok(output)
}

fn findings(standing: &Standing) -> Vec<LedgerFinding> {
    let ledger = standing.ledger_faults().into_iter();
    let ledger = ledger.map(|fault| LedgerFinding {
        code: "ledger_rolled_back".to_owned(),
        message: fault.to_string(),
        hint: fault.hint().to_owned(),
    });
    let files = standing.file_faults().into_iter();
    let files = files.map(|fault| LedgerFinding {
        code: "trust_rolled_back".to_owned(),
        message: fault.to_string(),
        hint: REPAIR.to_owned(),
    });
    ledger.chain(files).collect()
}

/// Records of the config directory about which an operator signed another one since: an older one was put back, or somebody
/// changed it. The files that the ledger itself writes are compared with it byte by byte elsewhere.
pub(crate) fn superseded(
    config: &Path,
    book: &AdmissionBook,
) -> Result<Vec<(String, FileState)>, RecordsError> {
    let own = record_files(book);
    let mut files = Vec::new();
    for file in scan(config)? {
        let Ok(kept) = file.found else { continue };
        if is_superseded(&kept, book) && !own.contains_key(Path::new(&file.name)) {
            files.push((file.name, FileState::Other));
        }
    }
    Ok(files)
}

/// Reads a record that an operator may stand for.
pub(crate) fn read_any_record(name: &str, bytes: &[u8]) -> Result<KeptRecord, DocumentError> {
    let value: serde_json::Value = document::read(name, bytes)?;
    let kind = AdmissionKind::of(&value)
        .ok_or_else(|| DocumentError::whole(name, "it is no record of an admission".to_owned()))?;
    read_record(kind, name, bytes)
}

/// Signs how far the ledger has come. Never on top of one that was put back: only a missing checkpoint is mended so.
pub fn make_checkpoint(harness: &Harness, now: Utc) -> Result<CheckpointOutput, LedgerError> {
    let ledger = harness.ledger();
    let faults = ledger.standing(&ledger.authority()?)?.ledger_faults();
    let is_mended = |fault: &LedgerFault| match fault {
        LedgerFault::Unwitnessed { .. } => true,
        LedgerFault::OtherLedger { .. }
        | LedgerFault::Behind { .. }
        | LedgerFault::Differs { .. }
        | LedgerFault::Unreadable { .. } => false,
    };
    let faults: Vec<LedgerFault> = faults.into_iter().filter(|f| !is_mended(f)).collect();
    if !faults.is_empty() {
        return Err(LedgerError::RolledBack(faults));
    }
    let made = ledger.checkpoint(now)?;
    Ok(CheckpointOutput {
        schema_version: CheckpointTag,
        ledger: made.checkpoint.ledger,
        length: made.checkpoint.length,
        head: made.checkpoint.head,
        path: made.path.display().to_string(),
        second: made.second,
    })
}

/// Writes the files of trust again from the ledger. Never from one that was put back.
pub fn repair_trust(harness: &Harness) -> Result<Vec<String>, LedgerError> {
    let ledger = harness.ledger();
    let authority: Authority = ledger.authority()?;
    let faults = ledger.standing(&authority)?.ledger_faults();
    if !faults.is_empty() {
        return Err(LedgerError::RolledBack(faults));
    }
    let mut touched = ledger.write_files()?;
    touched.extend(put_records_back(harness, &authority.admissions)?);
    Ok(touched)
}

/// Writes the signed record over each one that it had replaced, in whatever file that is.
pub(crate) fn put_records_back(
    harness: &Harness,
    book: &AdmissionBook,
) -> Result<Vec<String>, LedgerError> {
    let config = &harness.config.dir;
    let mut touched = Vec::new();
    let own = record_files(book);
    for file in scan(config).unwrap_or_default() {
        let Ok(kept) = file.found else { continue };
        let last = book.about(kept.admission.kind(), &kept.admission.about());
        let last = last.filter(|last| last.statement.digest != kept.digest);
        let Some(last) = last.filter(|_| !own.contains_key(Path::new(&file.name))) else {
            continue;
        };
        harness
            .ledger()
            .files()
            .write_record(&file.name, &last.statement.record)?;
        touched.push(file.name);
    }
    Ok(touched)
}
