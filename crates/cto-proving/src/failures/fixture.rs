//! A fixture: how one blocker is triggered, and what its pack must show.

use cto_contract::blocker::{BlockerCode, Row};
use cto_contract::event::Step;
use cto_runner::SandboxAsk;

/// One way to trigger a blocker. All of it is data; `site` acts on it.
#[derive(Debug, Clone, Copy)]
pub struct Fixture {
    pub blocker: BlockerCode,
    /// What tells it from the other fixtures of its row; empty for the first.
    pub variant: &'static str,
    /// What happens, for people.
    pub trigger: &'static str,
    pub(crate) work: Work,
    /// Fields of the contract that differ from the usual ones, as YAML.
    pub(crate) terms: &'static [(&'static str, &'static str)],
    /// What the repository's owner does after his first commit.
    pub(crate) owner: &'static str,
    /// `harness.yaml` without its schema line.
    pub(crate) config: &'static str,
    /// Records beside it, by file name.
    pub(crate) records: &'static [(&'static str, &'static str)],
    /// Files that somebody puts into the config directory once the harness is open.
    pub(crate) planted: &'static [(&'static str, &'static str)],
    pub(crate) program: Program,
    pub(crate) gate: Option<&'static str>,
    pub(crate) stage_gate: Option<&'static str>,
    pub(crate) stage: u8,
    /// What else the operator has in the environment.
    pub(crate) env: &'static [(&'static str, &'static str)],
    pub(crate) launch: Launch,
    /// What was typed about the sandbox.
    pub(crate) sandbox: SandboxAsk,
    pub(crate) meddling: Meddling,
    /// Other blockers that the same trigger brings with it.
    pub(crate) companions: &'static [BlockerCode],
    /// Files of the pack and a text that must stand in each.
    pub(crate) shows: &'static [(&'static str, &'static str)],
    /// Paths outside the workspace whose change is the very point; relative to the fixture's directory.
    pub(crate) changes_outside: &'static [&'static str],
}

/// What the run is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Repository,
    /// A repository that belongs to another user.
    ForeignRepository,
    Case,
}

/// What does the work.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Program {
    /// A shell script; `$place` is the fixture's directory, `$SECRET` a secret of the operator's environment.
    Script(&'static str),
    /// A program by its name, which is not there.
    Absent(&'static str),
    /// A file that the kernel refuses to execute.
    Broken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Launch {
    AsThisMachineCan,
    /// Without namespaces, as where the kernel refuses them.
    WithoutNamespaces,
}

/// What happens to a run from outside, at a moment that its own log names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meddling {
    None,
    /// A stop is asked for once the agent has said something.
    Stop,
    /// Somebody changes the source when the patch was taken.
    ChangeSource,
    /// Somebody changes a file of a protected root while the agent works.
    ChangeProtected,
    /// A file stands in the place of an artifact while a step lasts.
    Occupy {
        step: Step,
        file: &'static str,
    },
}

impl Fixture {
    /// Its row of the table of blockers.
    pub fn row(&self) -> Row {
        self.blocker.row()
    }

    /// Its name: the row's, and the variant behind it.
    pub fn name(&self) -> String {
        let row = self.row().fixture;
        if self.variant.is_empty() {
            row.to_owned()
        } else {
            format!("{row}-{}", self.variant)
        }
    }
}
