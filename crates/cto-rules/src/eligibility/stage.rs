//! Which stage a run is asked for, and whether the environment permits it.

use cto_contract::config::GateConfig;
use cto_contract::lanes::Gating;
use cto_contract::words::{Lane, MutationMode, Stage};

use super::facts::Work;

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

    /// The same where the config may permit stages too, unless the environment says something. It permits every stage up
    /// to its own where nothing lands; without a flag a case runs at 2 and a repository at 3.
    pub fn with_config(
        lane: Lane,
        flag: Option<Stage>,
        value: Option<&str>,
        (config, work): (GateConfig, Work),
    ) -> Self {
        let upto = config
            .stage
            .filter(|_| lane.traits().gating == Gating::EnvironmentOrConfig);
        let (None, Some(upto)) = (value, upto) else {
            return Self::of(lane, flag, value);
        };
        let usual = match work {
            Work::Case => Stage::FIXTURE,
            Work::Repository => Stage::COPIED_REPOSITORY,
        };
        let stage = flag.unwrap_or(usual);
        let last = upto.min(Stage::COPIED_REPOSITORY);
        Self {
            stage,
            is_permitted: stage != Stage::FIRST && stage <= last,
        }
    }

    /// How far a run at this stage may be asked to write: nowhere, where the stage is not permitted.
    pub fn mode(self, asked: Option<MutationMode>) -> MutationMode {
        asked
            .filter(|_| self.is_permitted)
            .unwrap_or(MutationMode::None)
    }
}
