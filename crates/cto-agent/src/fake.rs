//! The `fake` lane: applies the case's own change by a launched process, like any agent's.

use cto_contract::words::Lane;

use crate::dialogue::{Dialogue, Silent};
use crate::plan::{LanePlan, ScratchEntry, base_environment};
use crate::{Adapter, Surroundings};

/// What the fake lane does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FakeChange {
    /// A patch in git's format.
    Patch(Vec<u8>),
    /// The files below [`FAKE_DIRECTORY`] of scratch are laid over the workspace.
    Overlay,
}

/// Where in scratch the files of an overlay lie.
pub const FAKE_DIRECTORY: &str = "fake";

const PATCH_NAME: &str = "fake.patch";

/// The lane, with the change of its case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeLane {
    pub change: FakeChange,
}

impl Adapter for FakeLane {
    fn lane(&self) -> Lane {
        Lane::Fake
    }

    fn revision(&self) -> u32 {
        crate::revision(Lane::Fake)
    }

    fn plan(&self, around: Surroundings<'_>) -> LanePlan {
        let places = around.places;
        let mut env = base_environment(places, around.path);
        // `git apply` inside somebody's repository would leave out every path that is not below where it stands, so it
        // must not find one above the workspace.
        let above = places
            .workspace
            .rsplit_once('/')
            .map_or("/", |(above, _)| above);
        env.insert("GIT_CEILING_DIRECTORIES".to_owned(), above.to_owned());
        let in_scratch = |name: &str| format!("{}/{name}", places.scratch);
        let (argv, scratch) = match &self.change {
            FakeChange::Patch(bytes) => (
                vec![
                    "git".to_owned(),
                    "apply".to_owned(),
                    "--whitespace=nowarn".to_owned(),
                    "--verbose".to_owned(),
                    in_scratch(PATCH_NAME),
                ],
                vec![ScratchEntry::file(PATCH_NAME, bytes.as_slice())],
            ),
            FakeChange::Overlay => (
                vec![
                    "cp".to_owned(),
                    "-RPv".to_owned(),
                    format!("{}/.", in_scratch(FAKE_DIRECTORY)),
                    ".".to_owned(),
                ],
                Vec::new(),
            ),
        };
        LanePlan {
            argv,
            env,
            scratch,
            ..LanePlan::default()
        }
    }

    fn dialogue(&self) -> Box<dyn Dialogue> {
        Box::new(Silent)
    }
}
