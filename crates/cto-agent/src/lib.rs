//! Lanes: a task becomes a plan, a program's bytes become typed acts. No I/O, so it can be fuzzed.
//!
//! A lane never decides that it may run and never judges itself: the runner launches, watches and judges.

mod brief;
mod case;
mod command;
mod decode;
mod dialogue;
mod fake;
mod plain_lines;
mod plan;
mod streams;

use cto_contract::words::Lane;

pub use brief::{Brief, brief};
pub use case::{
    CaseEvents, CaseLane, CaseNews, EVENT_BYTES_MAX, ModelPair, is_case_command, names_pair,
};
pub use command::{CONTRACT_VARIABLE, CommandLane, TASK_VARIABLE};
pub use decode::{
    AGENT_SCHEMA, AgentLine, Decoder, KEPT_BYTES_MAX, LINE_BYTES_MAX, LINES_KEPT_MAX,
    ReviewVerdict, Tally,
};
pub use dialogue::{Act, Dialogue, Ending, ModelAnswer, Note, Silent};
pub use fake::{FAKE_DIRECTORY, FakeChange, FakeLane};
pub use plain_lines::PlainLines;
pub use plan::{
    CollectFrom, Collection, FollowedFile, LanePlan, ModelAddress, OverheardAnswers,
    PLACEHOLDER_KEY, PackFile, Places, ScratchContent, ScratchEntry, StdinUse, VersionProbe,
    WorkingDirectory, base_environment,
};
pub use streams::EVENT_LINE_BYTES_MAX;
pub use streams::claude::ClaudeLane;
pub use streams::codex::CodexLane;
pub use streams::pi::PiLane;

/// What a lane may know of a run: nothing that names a target, another run, a grant or a key.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    pub places: &'a Places,
    /// The search path inside.
    pub path: &'a str,
    pub brief: &'a Brief,
    /// None where the contract asks for no model.
    pub model: Option<&'a ModelAddress>,
}

/// A lane that can run: what to start, and how to speak with it.
pub trait Adapter {
    fn lane(&self) -> Lane;

    /// Raised whenever argv, config or decoding of the lane changes: earlier proofs become stale.
    fn revision(&self) -> u32;

    /// Turns the task into what is to be started.
    fn plan(&self, around: Surroundings<'_>) -> LanePlan;

    /// Why a plan must not be started, if so: a last look at what was made, by whoever knows what it has to be.
    fn objection(&self, plan: &LanePlan) -> Option<String> {
        let _ = plan;
        None
    }

    /// A conversation with the process that was started.
    fn dialogue(&self) -> Box<dyn Dialogue>;
}

/// Whether this build may run a lane: it has its adapter.
pub const fn is_built_in(lane: Lane) -> bool {
    match lane {
        Lane::Fake | Lane::Command | Lane::Case | Lane::Codex | Lane::Pi | Lane::Claude => true,
        Lane::Acp => false,
    }
}

#[cfg(test)]
mod tests;

/// The revision of a lane's adapter: raised whenever its argv, config or decoding changes, because proofs belong to one.
pub const fn revision(lane: Lane) -> u32 {
    match lane {
        Lane::Case => 3,
        Lane::Fake => 2,
        Lane::Command | Lane::Codex | Lane::Pi | Lane::Claude => 1,
        // No adapter is built in.
        Lane::Acp => 0,
    }
}
