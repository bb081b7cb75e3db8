//! The rules that verify shares with the run itself: path policy from the patch alone, and the order of events.

use cto_contract::event::{DiffChecked, RunEvent};
use cto_contract::task::TaskContract;
use cto_rules::patch::PatchError;

/// Judges a patch as the run had to judge it.
pub(crate) fn recompute(contract: &TaskContract, patch: &[u8]) -> Result<DiffChecked, PatchError> {
    cto_rules::patch::parse(patch).map(|entries| cto_rules::paths::check_diff(contract, &entries))
}

/// Says which required events are absent or out of order.
pub(crate) fn missing_events(events: &[RunEvent]) -> Vec<String> {
    cto_rules::order::missing_in_log(events.iter().map(|e| &e.kind))
}
