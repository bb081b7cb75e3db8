//! What kept a step from being carried out, and whose fault that is.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::eligibility::Gate;
use cto_contract::event::Step;
use cto_contract::text::shorten;
use cto_contract::words::{Lane, Stage};

use crate::programs::{ProgramProblem, remedy};

use crate::approval::ApprovalRefusal;

/// Most characters of the machine's own words in a message.
const WHY_CHARS: usize = 300;

/// The commands that could not be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commands {
    Setup,
    /// On the untouched tree.
    BaselineChecks,
    Checks,
}

/// What a disk runs out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskUnit {
    Bytes,
    Files,
}

impl DiskUnit {
    fn amount(self, count: u64) -> String {
        match self {
            Self::Bytes => format!("{} MiB", count >> 20),
            Self::Files => format!("{count} files"),
        }
    }
}

/// Why a step could not be carried out. A variant for each cause, because the fault differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A file that a pack or a workspace needs could not be written.
    NotWritten { path: String, why: String },
    /// The space that a run needs for its end could not be kept.
    NoReserve { mib: u64, why: String },
    /// Nothing was left of the disk after a step: so much of it the run had taken, of so much that was free.
    DiskFull {
        unit: DiskUnit,
        taken: u64,
        free_before: u64,
    },
    /// The trees of a run could not be made.
    WorkspaceNotMade { why: String },
    /// The copy is not the baseline any more, and nothing was started in it.
    WorkspaceNotClean { paths: Vec<String> },
    /// Inputs and setup commands need mounts, which the provider or the kernel refuses.
    MountsRefused,
    /// An input of the contract would hide what the repository holds itself.
    InputInTree { path: String },
    /// The lane's program is not there.
    ProgramMissing { program: String },
    /// The lane's program was looked for, and can't be started here.
    ProgramUnusable {
        lane: Lane,
        program: String,
        problem: ProgramProblem,
    },
    /// The lane's program is not the file any more whose digest was taken.
    ProgramReplaced,
    /// The lane can't be started for this task, for a reason of the task's own.
    NothingToStart { why: String },
    /// The repository turned out to be of a kind that is not supported.
    RepositoryUnsupported { why: String },
    /// The repository could not be read or copied.
    RepositoryNotCopied { why: String },
    /// What the configuration protects could not be looked at, so a change of it would go unseen.
    ProtectedRootsUnreadable { why: String },
    /// The commands themselves did not get as far as running.
    CommandsNotRun { which: Commands, why: String },
    /// The tree that the agent left is none that could be written as a patch.
    TreeNotReadable { why: String },
    /// What the agent left could not be read by this machine.
    TreeNotRead { why: String },
    /// The `fake` lane did not pass the case: there is nothing to compare with.
    FakeBaselineFailed { why: String },
    /// The source could not be looked at a last time: whether it changed is not known.
    SourceNotLookedAt { why: String },
    /// Whether the pack holds a secret could not be found out.
    PackNotScanned { why: String },
    /// The approval does not let the run start, for each of these reasons; never empty.
    NotApproved { against: Vec<ApprovalRefusal> },
    /// Whether the approval lets it start could not be found out.
    ApprovalUnreadable { why: String },
    /// The patch that was just written can't be read back.
    PatchNotReadable { why: String },
    /// The request says nothing of the disposable repository.
    DisposableNotNamed,
    /// The change could not land where the contract wants it.
    CannotLand { why: String },
    /// No signed record lets the target be changed.
    TargetNotAdmitted,
    /// A stage below the one asked for is not proven for this identity.
    StageNotProven { stage: Stage, needed: Stage },
}

/// Names what stands in the way.
pub fn fault(step: Step, fault: &Fault) -> Blocker {
    use BlockerCode as Code;
    let short = |why: &str| shorten(why, WHY_CHARS);
    match fault {
        Fault::NotWritten { path, why } => Blocker::new(
            Code::ArtifactWriteFailure,
            path.as_str(),
            format!("`{path}` could not be written: {}", short(why)),
        ),
        Fault::NoReserve { mib, why } => Blocker::new(
            Code::ArtifactWriteFailure,
            "reserve",
            format!(
                "{mib} MiB could not be kept for the end of the run, so it was not begun: {}",
                short(why)
            ),
        ),
        // Who took most of it is at fault; the run's own processes are the agent's.
        Fault::DiskFull {
            unit,
            taken,
            free_before,
        } => {
            let (code, who) = match *taken >= free_before / 2 {
                true => (Code::LimitExceeded, "the run"),
                false => (Code::ArtifactWriteFailure, "others"),
            };
            let (taken, free) = (unit.amount(*taken), unit.amount(*free_before));
            let what = format!("{who} filled the disk during `{step}`");
            Blocker::new(
                code,
                "disk",
                format!("{what}: the run took {taken} of {free} that were free"),
            )
        }
        Fault::WorkspaceNotMade { why } => Blocker::new(
            Code::ArtifactWriteFailure,
            "workspace",
            format!("the workspace could not be made: {}", short(why)),
        ),
        Fault::WorkspaceNotClean { paths } => Blocker::new(
            Code::DirtyStartingTree,
            paths.first().map_or("workspace", String::as_str),
            format!(
                "the copy is not the baseline any more, and nothing was started in it: {}",
                short(&paths.join(", "))
            ),
        ),
        Fault::MountsRefused => Blocker::new(
            Code::SandboxUnavailable,
            "mounts",
            "inputs and setup commands need mounts, which this provider or kernel refuses",
        ),
        Fault::InputInTree { path } => Blocker::new(
            Code::ProviderUnavailable,
            path.as_str(),
            format!("the input `{path}` is part of the repository's tree already"),
        ),
        Fault::ProgramMissing { program } => Blocker::new(
            Code::ProviderUnavailable,
            program.as_str(),
            format!(
                "the program `{}` is neither on PATH nor a file that can be read; name it after `--`",
                shorten(program, 120)
            ),
        ),
        Fault::ProgramUnusable {
            lane,
            program,
            problem,
        } => Blocker::new(
            Code::ProviderUnavailable,
            program.as_str(),
            format!(
                "the {lane} lane can't start `{}`: {problem}; {}",
                shorten(program, 120),
                remedy(*lane, problem)
            ),
        ),
        Fault::ProgramReplaced => Blocker::new(
            Code::ProviderUnavailable,
            "program",
            "the program was replaced or written after its digest was taken; try again once nobody installs it",
        ),
        Fault::NothingToStart { why } => {
            Blocker::new(Code::ProviderUnavailable, step.as_str(), short(why))
        }
        Fault::RepositoryUnsupported { why } => Blocker::new(
            Code::RepositoryUnsupported,
            "repository",
            format!("the repository can't be copied: {}", short(why)),
        ),
        Fault::RepositoryNotCopied { why } => Blocker::new(
            Code::ArtifactWriteFailure,
            "repository",
            format!("the repository could not be copied: {}", short(why)),
        ),
        Fault::ProtectedRootsUnreadable { why } => Blocker::new(
            Code::SandboxUnavailable,
            "protected_roots",
            format!("the protected roots could not be looked at: {}", short(why)),
        ),
        Fault::CommandsNotRun { which, why } => {
            let (subject, what) = match which {
                Commands::Setup => ("setup_commands", "the setup"),
                Commands::BaselineChecks => (
                    "verification_commands",
                    "the checks on the untouched baseline",
                ),
                Commands::Checks => ("verification_commands", "the checks"),
            };
            Blocker::new(
                Code::ProviderUnavailable,
                subject,
                format!("{what} could not be run: {}", short(why)),
            )
        }
        Fault::TreeNotReadable { why } => Blocker::new(
            Code::PatchNotReproducible,
            "workspace",
            format!("no patch can be made of what was left: {}", short(why)),
        ),
        Fault::TreeNotRead { why } => Blocker::new(
            Code::ArtifactWriteFailure,
            "workspace",
            format!("what was left could not be read: {}", short(why)),
        ),
        Fault::FakeBaselineFailed { why } => Blocker::new(
            Code::BaselineBroken,
            "fake",
            format!(
                "the fake lane did not pass this case, so nothing can be compared with it: {}",
                short(why)
            ),
        ),
        Fault::SourceNotLookedAt { why } => Blocker::new(
            Code::SourceChangedDuringRun,
            "source",
            format!("the source could not be looked at again: {}", short(why)),
        ),
        Fault::PackNotScanned { why } => Blocker::new(
            Code::ArtifactWriteFailure,
            "quarantine",
            format!(
                "whether the pack holds a secret could not be found out: {}",
                short(why)
            ),
        ),
        Fault::NotApproved { against } => {
            let blockers: Vec<Blocker> = against.iter().map(ApprovalRefusal::blocker).collect();
            let all: Vec<&str> = blockers.iter().map(|b| b.message.as_str()).collect();
            let code = against
                .first()
                .map_or(Code::ApprovalMissing, ApprovalRefusal::code);
            Blocker::new(code, Gate::Approval.as_str(), all.join("; "))
        }
        Fault::ApprovalUnreadable { why } => Blocker::new(
            Code::ApprovalSignatureInvalid,
            Gate::Approval.as_str(),
            format!(
                "the ledger can't say whether it was approved: {}",
                short(why)
            ),
        ),
        Fault::PatchNotReadable { why } => Blocker::new(
            Code::PatchNotReproducible,
            "patch.diff",
            format!("the patch can't be read back: {}", short(why)),
        ),
        Fault::DisposableNotNamed => Blocker::new(
            Code::UnownedRepository,
            "disposable_repository",
            "the request names no owner and no disposal of the disposable repository",
        ),
        Fault::CannotLand { why } => Blocker::new(
            Code::RepositoryUnsupported,
            "branch_policy",
            format!("the change could not land: {}", short(why)),
        ),
        Fault::TargetNotAdmitted => Blocker::new(
            Code::TargetAdmissionMissing,
            "target_admission",
            "there is no signed admission of the target",
        ),
        Fault::StageNotProven { stage, needed } => Blocker::new(
            Code::StageNotProven,
            "ladder",
            format!("stage {stage} needs the proof of stage {needed}, and there is none"),
        ),
    }
}

/// A stop that was asked for while a step was carried out.
pub fn interrupted(step: Step) -> Blocker {
    Blocker::new(
        BlockerCode::Interrupted,
        step.as_str(),
        format!("a stop was asked for during `{step}`"),
    )
}

/// A wall clock that went backwards: nothing can be said of the order of what it dated.
pub fn clock_went_back() -> Blocker {
    Blocker::new(
        BlockerCode::ClockUndecidable,
        "",
        "the wall clock went backwards during the run",
    )
}
