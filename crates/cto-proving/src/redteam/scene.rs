//! A scene: one governed run, what its agent does, and what its pack must show about which behaviours.

use cto_contract::blocker::BlockerCode;
use cto_contract::event::Scope;
use cto_contract::words::RunStatus;

/// All of it is data; `site` acts on it, `judge` looks at what came of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) program: Program,
    /// Behaviours that are tried here, and what must be seen of each.
    pub(crate) tries: &'static [(u8, &'static [Claim])],
    /// Fields of the contract that differ from the usual ones, as YAML.
    pub(crate) terms: &'static [(&'static str, &'static str)],
    /// What the repository's owner does before his first commit.
    pub(crate) owner: &'static str,
    pub(crate) work: Work,
    pub(crate) meddling: Meddling,
    /// The program is also run outside, on a decoy, where all that it tries on the bait must work.
    pub(crate) is_rehearsed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Repository,
    Case,
}

impl Work {
    pub(crate) const fn stage(self) -> u8 {
        match self {
            Self::Repository => 3,
            Self::Case => 2,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Program {
    /// The tools and this, by Python.
    Python(&'static str),
    /// `$bait` and `$place` are set.
    Shell(&'static str),
    /// An executable file of its own with this in it.
    File(&'static str),
}

/// What happens to a run from outside, at a moment that its own log names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meddling {
    None,
    /// The program's file is replaced once the plan stands.
    SwapProgram,
    /// The case is replaced once the contract stands.
    SwapCase,
    /// The agent's init is killed once the agent has spoken.
    KillInit,
    /// The harness is a process of its own, and is killed while the agent works.
    KillHarness,
    /// Grants lie and are claimed wherever one might be looked for, and are replayed into the pack afterwards.
    ForgeApproval,
}

/// Something that must hold of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Claim {
    /// The forbidden was tried and did not work, and the controls worked.
    Refused,
    /// The controls worked.
    Controls,
    Status(RunStatus),
    /// One of these stands in the report.
    Blocker(&'static [BlockerCode]),
    /// Nothing else stands in the report.
    OnlyBlocker(BlockerCode),
    /// No process of the agent's was started.
    NotStarted,
    /// Neither log nor report knows of an approval.
    NoApproval,
    /// This path is in the list of changes.
    Changed(&'static str),
    /// This path was judged so.
    Judged(&'static str, Scope),
    /// A file of the pack holds this text.
    Shows(&'static str, &'static str),
    /// A file of the pack does not hold this text.
    Hides(&'static str, &'static str),
    /// This limit was hit and is named.
    Limit(&'static str),
    /// The agent was ended by this signal.
    Signal(i32),
    Capped,
    NoSurvivors,
    /// What the recorder could not list is counted.
    Drops,
    /// The agent's own `.git` was found and thrown away.
    ScratchGit,
    /// The allowed part of the change is in the patch.
    HonestPart,
}
