//! Whose word counts, as faces show it.

use cto_contract::outputs::{
    CheckpointOutput, CheckpointTag, LedgerCheckOutput, LedgerCheckTag, LedgerFinding, OperatorRow,
    OperatorsOutput, OperatorsTag, WaitingSlot,
};
use cto_contract::time::Utc;
use cto_evidence::sshsig::SshPublicKey;
use cto_ledger::{Authority, LedgerError, OPERATORS_FILE, Standing};
use cto_rules::standing::{LedgerFault, REPAIR};

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
    let standing = ledger.standing(&authority)?;
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
    ledger.write_files()
}
