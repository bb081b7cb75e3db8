//! What sets the lanes apart, one row each: everything that is not the program's own interface.
//!
//! A new lane is a word in [`Lane`], a row here and an adapter; the compiler names every other place.

use crate::words::{Lane, NetworkClass, Stage, Wire};

/// What opens a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gating {
    /// Nothing stands before it.
    Open,
    /// The environment alone, at every stage.
    Environment,
    /// The environment; up to the last stage where nothing lands, also the operator's config.
    EnvironmentOrConfig,
}

/// Where the lane's program comes from, and so what of it must be seen inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramSource {
    /// A program of the system, which is always there.
    System,
    /// The command line that the operator typed; files that it names are shown.
    CommandLine,
    /// An installed program, named by `CTO_HARNESS_<LANE>_BIN` or found by this name.
    Installed(&'static str),
}

/// How the memory of all processes of an agent is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryWatch {
    /// Looked at from time to time: enough for what applies a patch and is gone.
    Polled,
    /// A control group where the machine has one, besides.
    Group,
}

/// Whether proofs of earlier stages stand before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LadderRule {
    /// The ruler that others are measured against.
    Ruler,
    Climbs,
}

/// When the checks run on the untouched baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaselineChecks {
    /// Before the agent starts: a check that can't tell anything costs nothing then.
    First,
    /// Beside the backend, which costs nothing itself.
    Beside,
}

/// What of a lane's use of its model the forwarder can count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meters {
    /// It asks no model.
    Nothing,
    /// Requests and tokens; a price list is not known.
    RequestsAndTokens,
}

/// Whether the tree that a lane works in is a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceGit {
    /// Where the source is one; a case is none.
    AsSource,
    /// Its program commits, and compares with `main`.
    Always,
}

/// Which wire a lane's program speaks to its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneWire {
    /// It asks no model.
    Nothing,
    /// The program decides.
    Any,
    Only(Wire),
}

impl LaneWire {
    /// Whether a request on this wire fits the lane.
    pub fn allows(self, wire: Wire) -> bool {
        match self {
            Self::Nothing => false,
            Self::Any => true,
            Self::Only(own) => own == wire,
        }
    }

    /// The one wire, where there is one.
    pub const fn only(self) -> Option<Wire> {
        match self {
            Self::Only(wire) => Some(wire),
            Self::Nothing | Self::Any => None,
        }
    }
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneTraits {
    /// Whether this build has an adapter for it.
    pub is_built_in: bool,
    pub gating: Gating,
    pub program: ProgramSource,
    pub memory: MemoryWatch,
    pub ladder: LadderRule,
    pub baseline_checks: BaselineChecks,
    /// First stage at which its source must be admitted; none for what is part of the harness.
    pub source_admission_from: Option<Stage>,
    /// First stage at which a person must have decided its provider; none for a lane without a model.
    pub decision_from: Option<Stage>,
    /// A word that its program says of itself when it is asked who it is; empty where it says none.
    pub identity_word: &'static str,
    pub meters: Meters,
    pub wire: LaneWire,
    pub workspace_git: WorkspaceGit,
    /// Directories of the workspace that hold the lane's own state: collected, and no part of the change.
    pub state_paths: &'static [&'static str],
    /// Further directories that it leaves behind, thrown away.
    pub residue: &'static [&'static str],
}

impl Lane {
    /// The lane's row.
    pub const fn traits(self) -> LaneTraits {
        const INSTALLED: LaneTraits = LaneTraits {
            is_built_in: false,
            gating: Gating::EnvironmentOrConfig,
            program: ProgramSource::CommandLine,
            memory: MemoryWatch::Group,
            ladder: LadderRule::Climbs,
            baseline_checks: BaselineChecks::First,
            source_admission_from: Some(Stage::COPIED_REPOSITORY),
            decision_from: Some(Stage::DISPOSABLE),
            identity_word: "",
            meters: Meters::RequestsAndTokens,
            wire: LaneWire::Any,
            workspace_git: WorkspaceGit::AsSource,
            state_paths: &[],
            residue: &[],
        };
        match self {
            Self::Fake => LaneTraits {
                is_built_in: true,
                gating: Gating::Open,
                program: ProgramSource::System,
                memory: MemoryWatch::Polled,
                ladder: LadderRule::Ruler,
                baseline_checks: BaselineChecks::Beside,
                source_admission_from: None,
                decision_from: None,
                meters: Meters::Nothing,
                wire: LaneWire::Nothing,
                ..INSTALLED
            },
            // It has no source: while nothing can land, the digest of its program is its identity.
            Self::Command => LaneTraits {
                is_built_in: true,
                source_admission_from: Some(Stage::DISPOSABLE),
                ..INSTALLED
            },
            Self::Case => LaneTraits {
                is_built_in: true,
                gating: Gating::Environment,
                program: ProgramSource::Installed("ca"),
                decision_from: Some(Stage::FIRST),
                // The npm package `case` is another program, whose usage begins with the same letters.
                identity_word: "Usage: ca <command>",
                wire: LaneWire::Only(Wire::ChatCompletions),
                workspace_git: WorkspaceGit::Always,
                state_paths: &[".case/"],
                ..INSTALLED
            },
            Self::Codex => LaneTraits {
                is_built_in: true,
                program: ProgramSource::Installed("codex"),
                identity_word: "codex",
                wire: LaneWire::Only(Wire::Responses),
                residue: &[".codex/"],
                ..INSTALLED
            },
            Self::Pi => LaneTraits {
                is_built_in: true,
                program: ProgramSource::Installed("pi"),
                wire: LaneWire::Only(Wire::ChatCompletions),
                residue: &[".pi/"],
                ..INSTALLED
            },
            Self::Claude => LaneTraits {
                is_built_in: true,
                program: ProgramSource::Installed("claude"),
                identity_word: "Claude",
                wire: LaneWire::Only(Wire::Messages),
                residue: &[".claude/"],
                ..INSTALLED
            },
            Self::Acp => INSTALLED,
        }
    }

    /// What a run of this lane reaches: an installed agent has its model, whatever the contract says of other programs.
    pub fn network(self, contract: NetworkClass) -> NetworkClass {
        match self.traits().program {
            ProgramSource::Installed(_) => NetworkClass::Model,
            ProgramSource::System | ProgramSource::CommandLine => contract,
        }
    }

    /// Whether a path of the workspace is the lane's own state, whether or not the baseline has it.
    pub fn keeps_state_at(self, path: &[u8]) -> bool {
        let mut own = self.traits().state_paths.iter();
        own.any(|directory| path.starts_with(directory.as_bytes()))
    }

    /// Whether a path of the workspace, absent from the baseline, is the lane's own and no part of the change.
    pub fn leaves(self, path: &[u8]) -> bool {
        let traits = self.traits();
        let mut own = traits.state_paths.iter().chain(traits.residue);
        own.any(|directory| path.starts_with(directory.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ruler_runs_without_a_gate_an_admission_a_ladder_and_checks_before() {
        for lane in Lane::ALL {
            let traits = lane.traits();
            let is_fake = *lane == Lane::Fake;
            assert_eq!(traits.gating == Gating::Open, is_fake, "{lane}");
            assert_eq!(traits.ladder == LadderRule::Ruler, is_fake, "{lane}");
            assert_eq!(traits.source_admission_from.is_none(), is_fake, "{lane}");
            let is_beside = traits.baseline_checks == BaselineChecks::Beside;
            assert_eq!(is_beside, is_fake, "{lane}");
            assert_eq!(lane.gate().is_none(), is_fake, "{lane}");
        }
    }

    #[test]
    fn a_lane_speaks_the_wire_of_its_program() {
        let spoken = |lane: Lane| {
            let wires = Wire::ALL.iter().map(|w| lane.traits().wire.allows(*w));
            wires.collect::<Vec<_>>()
        };
        assert_eq!(spoken(Lane::Fake), [false, false, false]);
        assert_eq!(spoken(Lane::Command), [true, true, true]);
        assert_eq!(spoken(Lane::Case), [true, false, false]);
        assert_eq!(spoken(Lane::Codex), [false, true, false]);
        assert_eq!(spoken(Lane::Pi), [true, false, false]);
        assert_eq!(spoken(Lane::Claude), [false, false, true]);
        assert_eq!(spoken(Lane::Acp), [true, true, true]);
    }

    #[test]
    fn a_lanes_own_directories_are_directories() {
        for lane in Lane::ALL {
            let traits = lane.traits();
            for path in traits.state_paths.iter().chain(traits.residue) {
                assert!(path.ends_with('/') && !path.starts_with('/'), "{path}");
                assert!(lane.leaves(format!("{path}x").as_bytes()));
                assert!(!lane.leaves(path.trim_end_matches('/').as_bytes()));
            }
        }
    }
}
