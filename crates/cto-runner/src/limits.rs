//! Which caps are in force, and which setting decided the wall clock.

use std::time::Duration;

use cto_checkout::ScanCaps;
use cto_contract::lanes::MemoryWatch;
use cto_contract::plan::LimitSource;
use cto_contract::task::Limits;
use cto_contract::words::Lane;
use cto_sandbox::MemoryHold;

/// Wall clock of a run that names none.
pub(crate) const WALL_SECONDS_DEFAULT: u64 = 600;
/// Output cap of a run that names none.
pub(crate) const OUTPUT_MB_DEFAULT: u64 = 64;
/// A limit of the disk is one of its files too: an empty file takes no byte and still takes a place.
const FILES_PER_MB: u64 = 1024;

/// The limits of a run after all settings were looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effective {
    pub(crate) limits: Limits,
    pub(crate) wall_from: LimitSource,
    wall: u64,
    output_mb: u64,
}

impl Effective {
    /// The smallest wins, field by field; for the wall clock it is remembered whose it was.
    pub(crate) fn new(
        contract: &Limits,
        config: &Limits,
        flag: Option<u64>,
        environment: Option<u64>,
    ) -> Self {
        let min = |a: Option<u64>, b: Option<u64>| [a, b].into_iter().flatten().min();
        let candidates = [
            (contract.wall_seconds, LimitSource::Contract),
            (config.wall_seconds, LimitSource::Config),
            (flag, LimitSource::Flag),
            (environment, LimitSource::Environment),
        ];
        let smallest = candidates
            .into_iter()
            .filter_map(|(v, s)| v.map(|v| (v, s)))
            .min_by_key(|(v, _)| *v);
        let (wall, wall_from) = smallest.unwrap_or((WALL_SECONDS_DEFAULT, LimitSource::Default));
        let output_mb = min(contract.output_mb, config.output_mb).unwrap_or(OUTPUT_MB_DEFAULT);
        let limits = Limits {
            wall_seconds: Some(wall),
            cpu_seconds: min(contract.cpu_seconds, config.cpu_seconds),
            memory_mb: min(contract.memory_mb, config.memory_mb),
            processes: min(contract.processes, config.processes),
            open_files: min(contract.open_files, config.open_files),
            disk_mb: min(contract.disk_mb, config.disk_mb),
            file_mb: min(contract.file_mb, config.file_mb),
            output_mb: Some(output_mb),
            tokens: min(contract.tokens, config.tokens),
            requests: min(contract.requests, config.requests),
            cost: [contract.cost, config.cost]
                .into_iter()
                .flatten()
                .reduce(f64::min),
        };
        Self {
            limits,
            wall_from,
            wall,
            output_mb,
        }
    }

    pub(crate) fn output_bytes(&self) -> u64 {
        self.output_mb.saturating_mul(1 << 20)
    }

    /// What of the agent's tree is read. A hole takes no place on the disk and is read like any other byte: a file counts
    /// by the length that it seems to have.
    pub(crate) fn scan_caps(&self) -> ScanCaps {
        let usual = ScanCaps::default();
        let disk = self.limits.disk_mb.map(|mb| mb.saturating_mul(1 << 20));
        ScanCaps {
            hash_bytes: disk.map_or(usual.hash_bytes, |disk| disk.min(usual.hash_bytes)),
            ..usual
        }
    }

    /// Of all processes of a launch together.
    pub(crate) fn tree(&self) -> cto_sandbox::TreeLimits {
        let bytes = |mb: u64| mb.saturating_mul(1 << 20);
        cto_sandbox::TreeLimits {
            memory_hold: MemoryHold::Looks,
            memory_bytes: self.limits.memory_mb.map(bytes),
            disk_bytes: self.limits.disk_mb.map(bytes),
            disk_files: self
                .limits
                .disk_mb
                .map(|mb| mb.saturating_mul(FILES_PER_MB)),
        }
    }

    pub(crate) fn sandbox(&self) -> cto_sandbox::Limits {
        cto_sandbox::Limits {
            wall: Duration::from_secs(self.wall),
            output_bytes: self.output_bytes(),
            cpu_seconds: self.limits.cpu_seconds,
            file_bytes: self.limits.file_mb.map(|mb| mb.saturating_mul(1 << 20)),
            open_files: self.limits.open_files,
            processes: self.limits.processes,
        }
    }
}

/// How the memory of all processes is held that run what an agent wrote: its own, and those of the checks.
pub(crate) fn memory_hold(lane: Lane) -> MemoryHold {
    match lane.traits().memory {
        MemoryWatch::Polled => MemoryHold::Looks,
        MemoryWatch::Group => MemoryHold::Group,
    }
}
