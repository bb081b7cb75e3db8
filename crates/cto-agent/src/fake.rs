//! The `fake` lane: applies the case's own change by a launched process, like any agent's.

use crate::{LaunchSpec, Places, base_environment};

/// What the fake lane does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FakeChange {
    /// A patch in git's format.
    Patch(Vec<u8>),
    /// A directory, as the launched process sees it, whose files are laid over the workspace.
    Overlay { directory: String },
}

const PATCH_NAME: &str = "fake.patch";

pub(crate) fn launch_spec(change: &FakeChange, places: &Places, path: &str) -> LaunchSpec {
    let mut env = base_environment(places, path);
    // `git apply` inside somebody's repository would leave out every path that is not below where it stands, so it must
    // not find one above the workspace.
    let above = places
        .workspace
        .rsplit_once('/')
        .map_or("/", |(above, _)| above);
    env.insert("GIT_CEILING_DIRECTORIES".to_owned(), above.to_owned());
    match change {
        FakeChange::Patch(bytes) => LaunchSpec {
            argv: ["git", "apply", "--whitespace=nowarn", "--verbose"]
                .map(str::to_owned)
                .into_iter()
                .chain([format!("{}/{PATCH_NAME}", places.scratch)])
                .collect(),
            env,
            scratch_files: vec![(PATCH_NAME.to_owned(), bytes.clone())],
        },
        FakeChange::Overlay { directory } => LaunchSpec {
            argv: vec![
                "cp".to_owned(),
                "-RPv".to_owned(),
                format!("{directory}/."),
                ".".to_owned(),
            ],
            env,
            scratch_files: Vec::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_applied_by_a_process_and_nothing_is_inherited() {
        let places = Places {
            workspace: "/run/w".into(),
            scratch: "/s".into(),
            home: "/s/home".into(),
        };
        let spec = launch_spec(&FakeChange::Patch(b"x".to_vec()), &places, "/usr/bin");
        assert_eq!(
            spec.argv.join(" "),
            "git apply --whitespace=nowarn --verbose /s/fake.patch"
        );
        assert_eq!(spec.env["HOME"], "/s/home");
        assert_eq!(spec.env["PATH"], "/usr/bin");
        assert_eq!(spec.env["GIT_CEILING_DIRECTORIES"], "/run");
        assert!(!spec.env.contains_key("SSH_AUTH_SOCK"));
    }
}
