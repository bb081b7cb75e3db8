//! What becomes of a run, lane by lane, when its provider or its program does something wrong: the table that tests run for
//! real with the doubles, and that `docs/lane-faults.md` is made from.
//!
//! A lane joins by a column in [`expected`], a row by an entry in [`ROWS`]: the page and the tests follow.

use std::fmt::Write as _;

use cto_contract::blocker::BlockerCode as Code;
use cto_contract::model_script::{FaultScope, ModelFault};
use cto_contract::words::{FaultClass, Lane, RunStatus};

/// The lanes of the table.
pub const LANES: &[Lane] = &[Lane::Codex, Lane::Pi, Lane::Claude];

/// Who answers for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    Scripted(ModelFault, FaultScope),
    /// Nobody listens there.
    Nobody,
    /// It answers the question before the start, and then nobody listens there any more.
    Leaves,
}

/// What the model has the agent do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// The change that was asked for.
    Works,
    /// Nothing, and it says that all is done.
    OnlyTalks,
    /// The change, and one of a file that is out of bounds.
    EditsOutside,
}

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy)]
pub struct FaultRow {
    pub name: &'static str,
    pub what: &'static str,
    pub provider: Provider,
    pub script: Script,
    /// What the program itself does, by the name of its double.
    pub behaviour: Option<&'static str>,
    /// The wall clock of the run, in seconds.
    pub wall_seconds: u32,
    /// Whether the suite of the real programs runs it too.
    pub is_real: bool,
}

const PLAIN: FaultRow = FaultRow {
    name: "ok",
    what: "the model answers and the agent does its work",
    provider: Provider::Scripted(ModelFault::Ok, FaultScope::Every),
    script: Script::Works,
    behaviour: None,
    wall_seconds: 60,
    is_real: false,
};

/// The provider answers the question before the start, and fails the agent at work.
const fn provider(name: &'static str, what: &'static str, fault: ModelFault) -> FaultRow {
    FaultRow {
        name,
        what,
        provider: Provider::Scripted(fault, FaultScope::AtWork),
        ..PLAIN
    }
}

/// The provider fails from the first question on.
const fn preflight(name: &'static str, what: &'static str, fault: ModelFault) -> FaultRow {
    FaultRow {
        name,
        what,
        provider: Provider::Scripted(fault, FaultScope::Every),
        wall_seconds: SHORT,
        ..PLAIN
    }
}

const fn program(name: &'static str, what: &'static str, behaviour: &'static str) -> FaultRow {
    FaultRow {
        name,
        what,
        behaviour: Some(behaviour),
        ..PLAIN
    }
}

/// Seconds after which a run that never ends is ended.
const SHORT: u32 = 4;

/// All of them.
pub const ROWS: &[FaultRow] = &[
    FaultRow {
        is_real: true,
        ..PLAIN
    },
    FaultRow {
        provider: Provider::Nobody,
        name: "refused, before the start",
        what: "nobody listens where the model should be",
        ..PLAIN
    },
    preflight(
        "hang, before the start",
        "the model never answers the one question",
        ModelFault::Hang,
    ),
    preflight(
        "cut, before the start",
        "the answer to the one question breaks off",
        ModelFault::Cut,
    ),
    preflight(
        "401, before the start",
        "the provider refuses the key",
        ModelFault::Unauthorized,
    ),
    preflight(
        "500, before the start",
        "the provider is broken",
        ModelFault::ServerError,
    ),
    preflight(
        "reasoning-only, before the start",
        "the model answers the one question with reasoning alone",
        ModelFault::ReasoningOnly,
    ),
    preflight(
        "another model, before the start",
        "another model answers the one question",
        ModelFault::AnotherModel,
    ),
    FaultRow {
        name: "slow",
        what: "the answers come a few bytes at a time, that to the one question too",
        provider: Provider::Scripted(ModelFault::Drip, FaultScope::Every),
        ..PLAIN
    },
    FaultRow {
        provider: Provider::Leaves,
        name: "refused",
        what: "nobody listens any more where the model was",
        ..PLAIN
    },
    FaultRow {
        wall_seconds: SHORT,
        is_real: true,
        ..provider(
            "hang",
            "the model takes the request and never answers",
            ModelFault::Hang,
        )
    },
    FaultRow {
        wall_seconds: SHORT,
        ..provider(
            "stall",
            "the model begins to answer and falls silent",
            ModelFault::Stall,
        )
    },
    provider(
        "cut",
        "the connection breaks in the middle of an answer",
        ModelFault::Cut,
    ),
    provider(
        "clean cut",
        "the answer ends early, by the rules of HTTP",
        ModelFault::CleanCut,
    ),
    FaultRow {
        is_real: true,
        ..provider(
            "401",
            "the provider refuses the key",
            ModelFault::Unauthorized,
        )
    },
    provider(
        "429",
        "the provider has had enough",
        ModelFault::TooManyRequests,
    ),
    FaultRow {
        is_real: true,
        ..provider("500", "the provider is broken", ModelFault::ServerError)
    },
    provider(
        "reasoning-only",
        "the model thinks, says nothing and calls nothing",
        ModelFault::ReasoningOnly,
    ),
    provider("refusal", "the model declines", ModelFault::Refusal),
    provider(
        "another model",
        "another model answers than the one that was asked",
        ModelFault::AnotherModel,
    ),
    FaultRow {
        script: Script::OnlyTalks,
        name: "no edit but done",
        what: "the agent changes nothing and says that all is done",
        is_real: true,
        ..PLAIN
    },
    FaultRow {
        script: Script::EditsOutside,
        name: "edit outside",
        what: "the agent also changes a file that is out of bounds",
        is_real: true,
        ..PLAIN
    },
    FaultRow {
        wall_seconds: SHORT,
        ..program(
            "endless output",
            "the program prints without end",
            "endless",
        )
    },
    FaultRow {
        wall_seconds: SHORT,
        ..program(
            "ignores SIGTERM",
            "the program never ends and does not hear SIGTERM",
            "deaf",
        )
    },
    program(
        "daemon left behind",
        "the program leaves a process in a session of its own",
        "daemon",
    ),
    program(
        "dies by signal",
        "the program is killed after its work",
        "dies",
    ),
    program(
        "half a line",
        "the program ends in the middle of the event that tells its end",
        "half",
    ),
    program(
        "newer events",
        "the program tells of events that this version does not know, one of them 5 MB long",
        "newer",
    ),
];

impl FaultRow {
    /// Whether the fault shows before anything of the lane is started.
    pub fn is_before_the_start(&self) -> bool {
        match self.provider {
            Provider::Nobody => true,
            Provider::Leaves | Provider::Scripted(_, FaultScope::AtWork) => false,
            Provider::Scripted(fault, FaultScope::Every) => {
                !matches!(fault, ModelFault::Ok | ModelFault::Drip)
            }
        }
    }
}

/// What a run must come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    pub status: RunStatus,
    /// The first blocker; none for a pass.
    pub blocker: Option<Code>,
    pub fault: FaultClass,
}

const PASS: Expected = Expected {
    status: RunStatus::Pass,
    blocker: None,
    fault: FaultClass::None,
};

const fn blocked(code: Code) -> Expected {
    Expected {
        status: RunStatus::Blocked,
        blocker: Some(code),
        fault: FaultClass::Environment,
    }
}

const fn failed(code: Code) -> Expected {
    Expected {
        status: RunStatus::Fail,
        blocker: Some(code),
        fault: FaultClass::Agent,
    }
}

/// What a row comes to in a lane; none for one that the lane is not tried with.
pub fn expected(lane: Lane, row: &FaultRow) -> Option<Expected> {
    if !LANES.contains(&lane) {
        return None;
    }
    Some(match row.name {
        "ok" | "slow" | "daemon left behind" | "newer events" => PASS,
        "401, before the start" => blocked(Code::ProviderAuthUnavailable),
        "reasoning-only, before the start" => blocked(Code::ProviderReasoningOnly),
        // Nothing of the run's own time was used: the provider is not there.
        "refused, before the start"
        | "hang, before the start"
        | "cut, before the start"
        | "500, before the start" => blocked(Code::ProviderUnavailable),
        "another model, before the start" => Expected {
            fault: FaultClass::Operator,
            ..blocked(Code::ModelAdmissionMismatch)
        },
        "hang" | "stall" | "endless output" | "ignores SIGTERM" => blocked(Code::Timeout),
        "401" => blocked(Code::ProviderAuthUnavailable),
        "reasoning-only" => blocked(Code::ProviderReasoningOnly),
        "refused" | "cut" | "clean cut" | "429" | "500" => blocked(Code::ProviderUnavailable),
        // Only Claude Code calls it an error.
        "refusal" if lane == Lane::Claude => failed(Code::BackendFailed),
        "refusal" | "no edit but done" => failed(Code::NoDiff),
        "another model" => Expected {
            fault: FaultClass::Operator,
            ..failed(Code::ModelAdmissionMismatch)
        },
        "edit outside" => failed(Code::DisallowedFileChange),
        "dies by signal" | "half a line" => failed(Code::BackendFailed),
        _ => return None,
    })
}

const HEAD: &str = "\
# What becomes of a run when something goes wrong

Each row is tried with each lane's double, for real, under confinement; those marked * also with the program itself. The
doubles tell what the pinned programs were recorded telling (`crates/cto-proving/recordings/`). Before the start the model is
asked one small question: where it fails that, nothing of the lane is started. In all other rows it answers it well.

This page is made from the table in the code (`cargo run -p cto-proving --example lane-faults-page`), and a test compares it
with it.

";

/// `docs/lane-faults.md`.
pub fn document() -> String {
    let mut text = HEAD.to_owned();
    let names: Vec<String> = LANES.iter().map(|lane| format!("`{lane}`")).collect();
    // Writing to a string can't fail.
    writeln!(text, "| fault | what happens | {} |", names.join(" | ")).ok();
    writeln!(text, "| --- | --- |{}", " --- |".repeat(LANES.len())).ok();
    for row in ROWS {
        let mark = if row.is_real { " *" } else { "" };
        write!(text, "| {}{mark} | {} |", row.name, row.what).ok();
        for lane in LANES {
            let cell = expected(*lane, row).map_or_else(
                || "–".to_owned(),
                |found| match found.blocker {
                    None => found.status.to_string(),
                    Some(code) => format!("{}, `{code}`, {}", found.status, found.fault),
                },
            );
            write!(text, " {cell} |").ok();
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_decided_for_every_lane() {
        for row in ROWS {
            for lane in LANES {
                assert!(expected(*lane, row).is_some(), "{lane} {}", row.name);
            }
        }
    }

    #[test]
    fn the_page_is_the_table() {
        let page = include_str!("../../../docs/lane-faults.md");
        assert_eq!(
            page,
            document(),
            "cargo run -p cto-proving --example lane-faults-page > docs/lane-faults.md"
        );
    }
}
