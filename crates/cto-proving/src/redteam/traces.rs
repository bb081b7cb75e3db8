//! What a run would leave on the machine: processes, mounts, scratch.

use std::fs;
use std::io;
use std::path::Path;

use cto_runner::Harness;

/// Everything of a run that is still there, a sentence each.
pub(super) fn left_behind(
    place: &Path,
    program: &Path,
    harness: &Harness,
) -> io::Result<Vec<String>> {
    let processes = processes_naming(program)?;
    let mut left: Vec<String> = processes
        .iter()
        .map(|pid| format!("process {} is still there", pid.as_raw_nonzero()))
        .collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let ours = place.to_string_lossy();
    left.extend(
        mounts
            .lines()
            .filter(|line| line.contains(&*ours))
            .map(|line| format!("a mount is left: {line}")),
    );
    for entry in fs::read_dir(harness.home.work())? {
        let name = entry?.file_name();
        left.push(format!("home/work/{} is left", name.to_string_lossy()));
    }
    Ok(left)
}

/// Processes with this file in their command line.
pub(super) fn processes_naming(file: &Path) -> io::Result<Vec<rustix::process::Pid>> {
    let needle = file.as_os_str().as_encoded_bytes();
    let entries = match fs::read_dir("/proc") {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let found = entries.flatten().filter_map(|entry| {
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        // Gone meanwhile is not there.
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word == needle).then_some(())?;
        rustix::process::Pid::from_raw(number)
    });
    Ok(found.collect())
}

pub(super) fn parent_of(pid: rustix::process::Pid) -> Option<rustix::process::Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let parent = fields.split_whitespace().nth(1)?.parse().ok()?;
    rustix::process::Pid::from_raw(parent)
}
