//! What others may not read in a directory that is shown: it is not to be read inside either.
//!
//! Unless it is started by root, an agent is the user who started it, and the kernel would give it that user's own files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cto_contract::plan::HiddenReason;

use super::{ReadPaths, is_system};

/// Most places that are masked in one directory.
const MASKS_MAX: usize = 64;

/// Who keeps what is closed to others from an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedBy {
    /// The kernel: inside is another user, to whom no mode gives anything.
    Kernel,
    /// Something empty that is mounted over each.
    Masks,
    /// Nothing can be mounted: a directory that holds such a file is left out.
    LeavingOut,
}

/// What a look at a place that is to be shown found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// Every closed place, itself or below.
    Closed(Vec<ClosedPlace>),
    TooLarge,
}

/// A place that others may not read, or that answers them: a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedPlace {
    pub path: PathBuf,
    pub kind: PlaceKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceKind {
    File,
    Directory,
}

impl ReadPaths {
    /// The places that must be looked at, each once. What the system has for everybody is not.
    pub fn to_look_at(&self) -> BTreeSet<PathBuf> {
        let own = self.shown.values().filter(|real| !is_system(real));
        own.cloned().collect()
    }

    /// Takes out what others may not read. Whoever names a closed place himself means it.
    pub fn hide(&mut self, looks: &BTreeMap<PathBuf, Look>, by: ClosedBy) {
        let is_closed = |real: &Path| match looks.get(real) {
            Some(Look::Closed(found)) => found.iter().any(|place| place.path == real),
            Some(Look::TooLarge) | None => false,
        };
        let meant: BTreeSet<&PathBuf> = self.named.iter().filter(|real| is_closed(real)).collect();
        let is_meant = |real: &Path| meant.iter().any(|above| real.starts_with(above));
        let mut left_out = BTreeMap::new();
        for (at, real) in &self.shown {
            if is_meant(real) {
                continue;
            }
            let found = match looks.get(real) {
                Some(Look::Closed(found)) => found,
                Some(Look::TooLarge) => {
                    left_out.insert(at.clone(), HiddenReason::TooLarge);
                    continue;
                }
                None => continue,
            };
            let found: Vec<&ClosedPlace> = found
                .iter()
                .filter(|place| !is_meant(&place.path))
                .collect();
            let reason = match (found.len(), by) {
                (0, _) => continue,
                _ if is_closed(real) => HiddenReason::ClosedToOthers,
                (1..=MASKS_MAX, ClosedBy::Masks | ClosedBy::Kernel) => {
                    for place in found {
                        if let Ok(below) = place.path.strip_prefix(real) {
                            self.masked.insert(at.join(below), place.kind);
                        }
                    }
                    continue;
                }
                (_, ClosedBy::Masks | ClosedBy::Kernel | ClosedBy::LeavingOut) => {
                    HiddenReason::HoldsClosed
                }
            };
            left_out.insert(at.clone(), reason);
        }
        self.shown.retain(|at, _| !left_out.contains_key(at));
        // What a directory that is left out holds can't be named inside.
        let shown: Vec<&PathBuf> = self.shown.keys().collect();
        self.masked
            .retain(|at, _| shown.iter().any(|above| at.starts_with(above)));
        self.hidden.extend(left_out);
        let masked = self.masked.keys().cloned();
        self.hidden
            .extend(masked.map(|at| (at, HiddenReason::Masked)));
    }
}
