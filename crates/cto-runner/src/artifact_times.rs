//! When each artifact was written, by the run's own clocks.

use std::collections::BTreeMap;

use cto_contract::artifact::{Freshness, FreshnessMap, FreshnessSource};
use cto_contract::ids::Nonce;

use crate::clock::{self, RunClock};

/// The times of a run's artifacts.
#[derive(Clone)]
pub(crate) struct ArtifactTimes {
    pub(crate) started_boot_ns: u64,
    nonce: Nonce,
    clock: RunClock,
    entries: FreshnessMap,
}

impl ArtifactTimes {
    pub(crate) fn new(started_boot_ns: u64, nonce: Nonce, clock: RunClock) -> Self {
        Self {
            started_boot_ns,
            nonce,
            clock,
            entries: BTreeMap::new(),
        }
    }

    pub(crate) fn note(&mut self, path: &str, source: FreshnessSource) {
        let monotonic_ns = clock::boot_ns().saturating_sub(self.started_boot_ns);
        let entry = Freshness {
            source,
            monotonic_ns,
            wall: self.clock.now(),
            nonce: self.nonce.clone(),
        };
        self.entries.insert(path.to_owned(), entry);
    }

    /// The file is gone.
    pub(crate) fn forget(&mut self, path: &str) {
        self.entries.remove(path);
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    pub(crate) fn entries(&self) -> &FreshnessMap {
        &self.entries
    }
}
