//! Residue: new files that are no part of the change, because the baseline ignores them or because a tool is known to
//! leave them behind.
//!
//! Residue is listed and thrown away. That is safe because nothing of it is ever used again: the patch leaves it out,
//! and the checks run on a fresh baseline with only the patch applied. So a list that is too long can lose a new file,
//! which the report then names; it can never let one in. What it must not lose is kept out of it: a tracked path (but for
//! the lane's own state, which stays as it was), a path whose cache the contract names, a new lock file that it allows, a
//! directory that the baseline keeps files in, and a file that a test runner or an agent would load by its name.

#[cfg(test)]
mod tests;
mod tools;

use cto_contract::task::TaskContract;
use cto_contract::words::Lane;

use crate::paths::{PathPolicy, implicitly_frozen};
use tools::{Contents, Leftover, Shape, TOOLS};

/// What a tree holds, by path.
#[derive(Debug, Clone, Default)]
pub struct TrackedPaths<'a>(Vec<&'a [u8]>);

impl<'a> TrackedPaths<'a> {
    pub fn new(paths: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut paths: Vec<&[u8]> = paths.into_iter().collect();
        paths.sort_unstable();
        Self(paths)
    }

    fn holds(&self, path: &[u8]) -> bool {
        self.0.binary_search(&path).is_ok()
    }

    fn holds_below(&self, directory: &[u8]) -> bool {
        let prefix = [directory, b"/"].concat();
        let next = self.0.partition_point(|known| *known < prefix.as_slice());
        let next = self.0.get(next);
        next.is_some_and(|path| path.starts_with(&prefix))
    }
}

/// Who left the files: an agent may leave what its lane is known for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftBy {
    Agent(Lane),
    Checks,
}

/// Tells residue from the change, for one contract and one tree.
#[derive(Debug)]
pub struct ResidueRules<'a> {
    policy: PathPolicy,
    left_by: LeftBy,
    tracked: TrackedPaths<'a>,
}

impl<'a> ResidueRules<'a> {
    pub fn new(contract: &TaskContract, left_by: LeftBy, tracked: TrackedPaths<'a>) -> Self {
        Self {
            policy: PathPolicy::new(contract),
            left_by,
            tracked,
        }
    }

    /// Whether a path of the tree was there before, as a file or as a directory.
    pub fn is_tracked(&self, path: &[u8]) -> bool {
        self.tracked.holds(path) || self.tracked.holds_below(path)
    }

    /// Whether a path is residue; `ignored` says what the ignore rules of the baseline make of it.
    pub fn is_residue(&self, path: &[u8], ignored: bool) -> bool {
        if self.is_state_of_lane(path) {
            return true;
        }
        if self.is_tracked(path) {
            return false;
        }
        ignored || self.is_of_lane(path) || TOOLS.iter().any(|tool| self.is_left_by(tool, path))
    }

    /// A lane's own state is never the change, also where a repository keeps some of it: what was there stays as it was.
    fn is_state_of_lane(&self, path: &[u8]) -> bool {
        match self.left_by {
            LeftBy::Agent(lane) => lane.keeps_state_at(path) && !self.policy.names(path),
            LeftBy::Checks => false,
        }
    }

    fn is_of_lane(&self, path: &[u8]) -> bool {
        match self.left_by {
            LeftBy::Agent(lane) => lane.leaves(path) && !self.policy.names(path),
            LeftBy::Checks => false,
        }
    }

    fn is_left_by(&self, tool: &Leftover, path: &[u8]) -> bool {
        let Some(place) = tool.place_in(path) else {
            return false;
        };
        let parent = &path[..place.start];
        let beside = |marker: &&str| self.tracked.holds(&[parent, marker.as_bytes()].concat());
        (tool.beside.is_empty() || tool.beside.iter().any(beside))
            && !self.tracked.holds_below(&path[..place.end])
            && !self.policy.names(path)
            && !self.policy.names_part(path, &path[place])
            && match tool.contents {
                Contents::Data => !is_loaded_by_name(path),
                Contents::Programs => true,
                Contents::Unasked => self.is_unasked(path),
            }
    }

    /// Whether nobody could have wanted the file: checks change nothing, and an agent only what is allowed.
    fn is_unasked(&self, path: &[u8]) -> bool {
        match self.left_by {
            LeftBy::Agent(_) => self.policy.allowed_by(path).is_none(),
            LeftBy::Checks => true,
        }
    }
}

/// Whether a runner or an agent would load the file by its name. Caches of data hold no such file but their own.
fn is_loaded_by_name(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let Ok(name) = std::str::from_utf8(name) else {
        return false;
    };
    let is_own = name == ".gitignore" || tools::MODULE_RECORDS.iter().any(|s| name.ends_with(s));
    !is_own && implicitly_frozen(name).is_some()
}

impl Leftover {
    /// Where in the path the tool's own name stands.
    fn place_in(&self, path: &[u8]) -> Option<std::ops::Range<usize>> {
        let starts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut starts = std::iter::once(0).chain(starts.map(|(at, _)| at + 1));
        starts.find_map(|start| self.place_at(path, start))
    }

    fn place_at(&self, path: &[u8], start: usize) -> Option<std::ops::Range<usize>> {
        let depth = self.name.split('/').count();
        let mut end = start;
        for (index, pattern) in self.name.split('/').enumerate() {
            let component = path[end..].split(|&byte| byte == b'/').next()?;
            if !matches(pattern, component) {
                return None;
            }
            end += component.len();
            let is_last = index + 1 == depth;
            match (is_last, path.get(end)) {
                (true, None) => return (self.shape == Shape::File).then_some(start..end),
                (true, Some(_)) => return (self.shape == Shape::Directory).then_some(start..end),
                (false, None) => return None,
                (false, Some(_)) => end += 1,
            }
        }
        None
    }
}

/// A name where one `*` at either end stands for anything.
fn matches(pattern: &str, name: &[u8]) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.len() > end.len() && name.ends_with(end.as_bytes()),
        (None, Some(start)) => name.len() > start.len() && name.starts_with(start.as_bytes()),
        (None, None) => name == pattern.as_bytes(),
    }
}
