//! The day on one screen: what runs, what waits for a person, how the last matrix ended, how far the ledger has come.

use cto_contract::outputs::{
    ApprovalPhase, LedgerStatus, LiveRun, MatrixNote, RequestRow, StatusOutput, StatusTag,
};

use crate::harness::Harness;
use crate::outcomes::OutcomeError;
use crate::recover::live_runs;
use crate::requests::{read_private, write_private};

const LAST_MATRIX: &str = "last-matrix.json";

impl Harness {
    /// Notes how a matrix ended, so that nobody has to look for its report.
    pub fn note_matrix(&self, note: &MatrixNote) -> std::io::Result<()> {
        let bytes = serde_json::to_vec_pretty(note)?;
        write_private(&self.home.root().join(LAST_MATRIX), &bytes)
    }

    fn last_matrix(&self) -> Option<MatrixNote> {
        let bytes = read_private(&self.home.root().join(LAST_MATRIX)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Gathers the screen; of what waits, at most so many of each.
    pub fn status(&self, limit: usize) -> Result<StatusOutput, OutcomeError> {
        let store = self.store();
        let mut live = Vec::new();
        for (run_id, holder) in live_runs(&self.home) {
            let row = store.get(&run_id)?;
            live.push(LiveRun {
                pid: holder.pid,
                backend: row.as_ref().map(|row| row.backend),
                title: row.as_ref().map(|row| row.title.clone()),
                started_at: row.map(|row| row.started_at),
                run_id,
            });
        }
        let waits = |row: &RequestRow| {
            let phase = row.standing.phase;
            matches!(phase, ApprovalPhase::Requested | ApprovalPhase::Granted)
        };
        let states = self.requests()?;
        let rows = states.iter().map(|state| self.request_row(state));
        let mut requests: Vec<RequestRow> = rows.filter(waits).collect();
        let mut outcomes = self.pending_outcomes()?;
        let more = requests.len().saturating_sub(limit) + outcomes.len().saturating_sub(limit);
        requests.truncate(limit);
        outcomes.truncate(limit);
        let head = store.ledger_head()?;
        let operators = self.ledger().authority().map(|a| a.is_governed());
        Ok(StatusOutput {
            schema_version: StatusTag,
            live,
            requests,
            outcomes,
            more: more as u64,
            last_matrix: self.last_matrix(),
            ledger: LedgerStatus {
                id: store.ledger_id()?,
                seq: head.seq,
                head: head.digest,
                governed: operators.unwrap_or(true),
            },
        })
    }
}
