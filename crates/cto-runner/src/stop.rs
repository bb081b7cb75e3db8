//! Ends a run that another process works on.

use std::time::{Duration, Instant};

use cto_contract::artifact::ATTESTATION;
use cto_contract::outputs::{StopOutput, StopTag};
use rustix::process::{Pid, Signal};

use crate::home::Home;
use crate::lock::Holder;
use crate::pack_file::{self, PackFileError};
use crate::provenance::OpenedPack;
use crate::recover::live_runs;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A run that could not be asked to stop.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error("nobody works on the run of `{}`", pack.display())]
    NotLive { pack: std::path::PathBuf },
    #[error("process {pid} could not be asked to stop")]
    Refused { pid: u32, source: std::io::Error },
    #[error(transparent)]
    Pack(#[from] PackFileError),
}

/// Asks the process that works on a run to stop, and waits so long for the sealed pack. `asked` hears of the process.
pub fn stop_run(
    home: &Home,
    found: &OpenedPack,
    wait: Duration,
    asked: &mut dyn FnMut(u32),
) -> Result<StopOutput, StopError> {
    let not_live = || StopError::NotLive {
        pack: found.pack.clone(),
    };
    let (run_id, holder) = live_runs(home)
        .into_iter()
        .find(|(id, _)| Some(id) == found.run_id.as_ref())
        .ok_or_else(not_live)?;
    let pid = i32::try_from(holder.pid).ok().and_then(Pid::from_raw);
    let was_there =
        ask_to_stop(pid.ok_or_else(not_live)?, &holder).map_err(|errno| StopError::Refused {
            pid: holder.pid,
            source: errno.into(),
        })?;
    if !was_there {
        return Err(not_live());
    }
    asked(holder.pid);
    let attestation = found.pack.join(ATTESTATION);
    let until = Instant::now() + wait;
    while !attestation.exists() && holder.is_alive() && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
    let sealed = attestation.exists();
    let status = if sealed {
        Some(pack_file::sealed_report(&found.pack)?.verdict.status)
    } else {
        None
    };
    Ok(StopOutput {
        schema_version: StopTag,
        run_id,
        pid: holder.pid,
        sealed,
        status,
    })
}

/// Signals the holder; false when it is gone. The descriptor holds on to the process, so that between the check and the
/// signal its number can't change hands.
#[cfg(target_os = "linux")]
fn ask_to_stop(pid: Pid, holder: &Holder) -> rustix::io::Result<bool> {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    if !holder.is_alive() {
        return Ok(false);
    }
    pidfd_send_signal(&process, Signal::TERM).map(|()| true)
}

/// No process can be held on to here, nor can a run be live: confinement needs Linux.
#[cfg(not(target_os = "linux"))]
fn ask_to_stop(pid: Pid, holder: &Holder) -> rustix::io::Result<bool> {
    if !holder.is_alive() {
        return Ok(false);
    }
    rustix::process::kill_process(pid, Signal::TERM).map(|()| true)
}
