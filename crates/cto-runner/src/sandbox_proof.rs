//! `backend/sandbox.json`: the policy that was asked for, and what was tried and seen inside, in words that fit any machine.

use std::path::{Path, PathBuf};

use cto_contract::plan::SandboxPlan;
use cto_contract::sandbox::{
    Expectation, LaunchPolicy, MountSeen, Place, PlaceKind, SandboxProof, SandboxProofSchema, Tried,
};
use cto_contract::task::Limits;
use cto_contract::words::NetworkClass;
use cto_sandbox::{Access, Expected, InsideProof, LaunchRequest, Root};

use crate::inside::{ORACLE, SCRATCH, WORKSPACE};

/// What a pack calls directories: the longest that fits wins, and only whole names are replaced.
#[derive(Debug)]
pub(crate) struct Names(Vec<(PathBuf, &'static str)>);

impl Names {
    pub(crate) fn new(home: &Path, user_home: Option<&Path>) -> Self {
        let mut all = vec![
            (PathBuf::from(WORKSPACE), "$WORKSPACE"),
            (PathBuf::from(SCRATCH), "$SCRATCH"),
            (PathBuf::from(ORACLE), "$CTO_ORACLE"),
            (home.to_owned(), "$CTO_HOME"),
        ];
        all.extend(user_home.map(|dir| (dir.to_owned(), "~")));
        // A home that is the root would be everything.
        all.retain(|(dir, _)| dir.parent().is_some());
        all.sort_by_key(|(dir, _)| std::cmp::Reverse(dir.as_os_str().len()));
        Self(all)
    }

    pub(crate) fn name(&self, path: &Path) -> String {
        let found = self.0.iter().find_map(|(dir, name)| {
            let below = path.strip_prefix(dir).ok()?;
            Some(match below.as_os_str().is_empty() {
                true => (*name).to_owned(),
                false => format!("{name}/{}", below.display()),
            })
        });
        found.unwrap_or_else(|| path.display().to_string())
    }
}

/// Puts together what a stranger needs to see that the backend was held as the report says.
pub(crate) fn sandbox_proof(
    request: &LaunchRequest,
    inside: Option<&InsideProof>,
    plan: &SandboxPlan,
    limits: &Limits,
    names: &Names,
) -> SandboxProof {
    let tried = inside.map(|proof| {
        let all = proof.canaries.iter();
        all.map(|canary| Tried {
            act: canary.act.as_str().to_owned(),
            target: names.name(Path::new(&canary.target)),
            expected: match canary.expected {
                Expected::Refused => Expectation::Refused,
                Expected::Allowed => Expectation::Allowed,
            },
            errno: canary.errno,
            held: canary.holds(),
        })
        .collect()
    });
    let mounts = inside.map(|proof| {
        let lines = proof.mounts.iter();
        lines
            .filter_map(|line| MountSeen::parse(line))
            .map(|seen| MountSeen {
                at: names.name(Path::new(&seen.at)),
                ..seen
            })
            .collect()
    });
    SandboxProof {
        schema_version: SandboxProofSchema,
        provider: plan.provider.clone(),
        class: plan.class,
        policy: LaunchPolicy {
            network: match request.network {
                cto_sandbox::Network::None => NetworkClass::None,
                cto_sandbox::Network::Host => NetworkClass::Model,
            },
            limits: *limits,
            places: places(request, names),
        },
        tried: tried.unwrap_or_default(),
        mounts: mounts.unwrap_or_default(),
        mounts_cut: inside.is_some_and(|proof| proof.mounts_cut),
    }
}

fn places(request: &LaunchRequest, names: &Names) -> Vec<Place> {
    let place = |at: &Path, kind: PlaceKind, writable: bool| Place {
        at: names.name(at),
        kind,
        writable,
    };
    let mut all: Vec<Place> = Vec::new();
    for bind in &request.binds {
        all.push(place(
            &bind.at,
            PlaceKind::Bind,
            bind.access == Access::Writable,
        ));
    }
    if let Some(overlay) = &request.overlay {
        all.push(place(&overlay.at, PlaceKind::Overlay, true));
    }
    if let Root::Built(root) = &request.root {
        let shown = root.read_only.iter().map(|shown| &shown.at);
        all.extend(shown.map(|at| place(at, PlaceKind::Bind, false)));
        let links = root.links.iter();
        all.extend(links.map(|(at, _)| place(at, PlaceKind::Link, false)));
        let files = root.files.iter();
        all.extend(files.map(|(at, _)| place(at, PlaceKind::File, false)));
        let empty = root.tmpfs.iter();
        all.extend(empty.map(|tmpfs| place(&tmpfs.at, PlaceKind::Tmpfs, true)));
    }
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_a_whole_directory_only() {
        let names = Names::new(Path::new("/home/you/.state"), Some(Path::new("/home/you")));
        let table = [
            ("/home/you/.state/work/x", "$CTO_HOME/work/x"),
            ("/home/you/bin", "~/bin"),
            ("/home/you", "~"),
            ("/cto/workspaces", "/cto/workspaces"),
            ("/proc/1/home/you", "/proc/1/home/you"),
            ("/cto/workspace/a", "$WORKSPACE/a"),
            ("192.0.2.1:9", "192.0.2.1:9"),
        ];
        for (path, wanted) in table {
            assert_eq!(names.name(Path::new(path)), wanted);
        }
        let rooted = Names::new(Path::new("/x"), Some(Path::new("/")));
        assert_eq!(rooted.name(Path::new("/usr")), "/usr");
    }
}
