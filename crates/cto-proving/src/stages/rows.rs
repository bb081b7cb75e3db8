//! The runs of each stage: how the command line is called, and what the agent does.

use cto_contract::words::Stage;

use super::checks::PASS;
use super::scripts::Act;

/// What the work is done on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Case(&'static str),
    /// The repository with a contract of this name.
    Repository(&'static str),
    /// The same, with something uncommitted in it.
    DirtyRepository,
}

/// Which lane is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Lane,
    /// None is named.
    Default,
}

/// One run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) engine: Engine,
    pub(super) work: Work,
    pub(super) act: Act,
    /// The value of the lane's gate.
    pub(super) gate: Option<&'static str>,
    /// The value of the lane's stage gate.
    pub(super) stage_gate: Option<&'static str>,
    pub(super) flag: Option<&'static str>,
    pub(super) has_program: bool,
    /// More space must be free than there is.
    pub(super) has_floor: bool,
    pub(super) timeout: Option<&'static str>,
}

pub(super) const CASE: &str = "stage-case";
pub(super) const CASE_WITHOUT_COMMAND: &str = "stage-case-no-command";
pub(super) const CASE_WITH_EVENT: &str = "stage-case-event";
pub(super) const CONTRACT: &str = "plain";
pub(super) const CONTRACT_WITH_SETUP: &str = "dirty-start";
pub(super) const CONTRACT_DIRTY_END: &str = "dirty-end";
pub(super) const CONTRACT_WITH_EVENT: &str = "event";

const CLOSED: Row = Row {
    name: "gate-absent",
    engine: Engine::Lane,
    work: Work::Case(CASE),
    act: Act::Works,
    gate: None,
    stage_gate: None,
    flag: None,
    has_program: true,
    has_floor: false,
    timeout: None,
};

const AT_2: Row = Row {
    name: PASS,
    gate: Some("1"),
    stage_gate: Some("2"),
    flag: Some("2"),
    ..CLOSED
};

const AT_3: Row = Row {
    name: PASS,
    work: Work::Repository(CONTRACT),
    gate: Some("1"),
    stage_gate: Some("3"),
    flag: Some("3"),
    ..CLOSED
};

const STAGE_1: &[Row] = &[
    Row {
        name: "fake-is-the-default",
        engine: Engine::Default,
        ..CLOSED
    },
    CLOSED,
    Row {
        name: "gate-not-exact",
        gate: Some("yes"),
        ..CLOSED
    },
    Row {
        name: "gate-alone",
        gate: Some("1"),
        ..CLOSED
    },
    Row {
        name: "stage-one",
        gate: Some("1"),
        stage_gate: Some("1"),
        ..CLOSED
    },
    Row {
        name: "missing-stage-gate",
        gate: Some("1"),
        flag: Some("2"),
        ..CLOSED
    },
    Row {
        name: "provider-unavailable",
        has_program: false,
        ..AT_2
    },
    Row {
        name: "missing-event",
        engine: Engine::Default,
        work: Work::Case(CASE_WITH_EVENT),
        ..CLOSED
    },
    Row {
        name: "artifact-write-failure",
        engine: Engine::Default,
        has_floor: true,
        ..CLOSED
    },
];

const STAGE_2: &[Row] = &[
    AT_2,
    Row {
        name: "no-diff",
        act: Act::Talks,
        ..AT_2
    },
    Row {
        name: "disallowed-file",
        act: Act::EditsOutside,
        ..AT_2
    },
    Row {
        name: "failed-tests",
        act: Act::WorksWrongly,
        ..AT_2
    },
    Row {
        name: "missing-test-command",
        work: Work::Case(CASE_WITHOUT_COMMAND),
        ..AT_2
    },
    Row {
        name: "missing-event",
        work: Work::Case(CASE_WITH_EVENT),
        ..AT_2
    },
    Row {
        name: "provider-unavailable",
        has_program: false,
        ..AT_2
    },
    Row {
        name: "missing-stage-gate",
        stage_gate: None,
        ..AT_2
    },
];

const STAGE_3: &[Row] = &[
    AT_3,
    Row {
        name: "dirty-source",
        work: Work::DirtyRepository,
        ..AT_3
    },
    Row {
        name: "dirty-copy-start",
        work: Work::Repository(CONTRACT_WITH_SETUP),
        ..AT_3
    },
    Row {
        name: "dirty-copy-end",
        work: Work::Repository(CONTRACT_DIRTY_END),
        ..AT_3
    },
    Row {
        name: "timeout",
        act: Act::Hangs,
        timeout: Some("3"),
        ..AT_3
    },
    Row {
        name: "artifact-write-failure",
        has_floor: true,
        ..AT_3
    },
    Row {
        name: "disallowed-file",
        act: Act::EditsOutside,
        ..AT_3
    },
    Row {
        name: "failed-tests",
        act: Act::WorksWrongly,
        ..AT_3
    },
    Row {
        name: "missing-event",
        work: Work::Repository(CONTRACT_WITH_EVENT),
        ..AT_3
    },
    Row {
        name: "missing-stage-gate",
        stage_gate: Some("2"),
        ..AT_3
    },
];

pub(super) const fn rows(stage: Stage) -> &'static [Row] {
    match stage.number() {
        1 => STAGE_1,
        2 => STAGE_2,
        _ => STAGE_3,
    }
}
