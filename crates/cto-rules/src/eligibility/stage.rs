//! Which stage a run is asked for, and whether the environment permits it.

use cto_contract::words::{Lane, MutationMode, Stage};

/// A stage that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageAsked {
    pub stage: Stage,
    /// The environment permits it, or the lane needs no such permission.
    pub is_permitted: bool,
}

impl StageAsked {
    /// The flag asks, the environment permits. Without the flag the environment's digit is the stage asked for.
    pub fn of(lane: Lane, flag: Option<Stage>, value: Option<&str>) -> Self {
        if lane.stage_gate().is_none() {
            return Self {
                stage: flag.unwrap_or(Stage::FIXTURE),
                is_permitted: true,
            };
        }
        // Only the exact digit: `02` and ` 2` are no stage.
        let permitted = value.and_then(|v| Stage::all().find(|stage| stage.to_string() == v));
        let stage = flag.or(permitted).unwrap_or(Stage::FIRST);
        Self {
            stage,
            // The first stage only shows that the lane is closed: it never starts a process.
            is_permitted: permitted == Some(stage) && stage != Stage::FIRST,
        }
    }

    /// How far a run at this stage may be asked to write: nowhere, where the stage is not permitted.
    pub fn mode(self, asked: Option<MutationMode>) -> MutationMode {
        asked
            .filter(|_| self.is_permitted)
            .unwrap_or(MutationMode::None)
    }
}
