//! `cto stop`: end a live run.

use std::time::{Duration, Instant};

use cto_contract::artifact::ATTESTATION;
use cto_contract::outputs::{StopOutput, StopTag};
use cto_runner::{Holder, live_runs};
use rustix::process::{Pid, Signal};

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::pack_file;
use crate::session::Session;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Ask a live run to stop, and wait for its sealed pack
///
/// Sends SIGTERM to the harness that works on it, after making sure that it is that very process. The run ends as
/// `interrupted`, with a pack like any other.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  cto stop latest --wait 10")]
pub(crate) struct Args {
    /// A run id, a unique prefix, `latest`, or a path to a pack
    #[arg(value_name = "RUN")]
    run: String,
    /// Wait so many seconds for the seal
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    let home = session.home()?;
    let found = session.find(&args.run)?;
    let not_live = || {
        Failure::new(
            Exit::USAGE,
            "run_not_live",
            format!(
                "nobody works on run `{}`",
                cto_contract::text::shorten(&args.run, 120)
            ),
        )
    };
    let live = live_runs(&home)
        .into_iter()
        .find(|(id, _)| Some(id) == found.run_id.as_ref());
    let (run_id, holder) = live.ok_or_else(|| {
        not_live().hint("`cto runs` shows which are live; `cto recover` seals one that crashed")
    })?;
    let pid = i32::try_from(holder.pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(not_live)?;
    let refused = |e: rustix::io::Errno| {
        Failure::io(
            "signal_refused",
            format!("process {} could not be asked to stop", holder.pid),
            &e.into(),
        )
    };
    if !ask_to_stop(pid, &holder).map_err(refused)? {
        return Err(not_live());
    }
    session
        .printer
        .talk(&format!("asked process {} to stop", holder.pid));
    let attestation = found.pack.join(ATTESTATION);
    let until = Instant::now() + Duration::from_secs(args.wait);
    while !attestation.exists() && holder.is_alive() && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
    let sealed = attestation.exists();
    let status = if sealed {
        Some(pack_file::report(&found.pack)?.1.verdict.status)
    } else {
        None
    };
    if session.printer.json {
        session.printer.document(&StopOutput {
            schema_version: StopTag,
            run_id,
            pid: holder.pid,
            sealed,
            status,
        })?;
    } else {
        let mut page = session.printer.page();
        match status {
            Some(status) => page.line(&format!("stopped: run {run_id} is sealed as {status}")),
            None => page.line(&format!("run {run_id} is not sealed yet")),
        };
        session.printer.show(&page)?;
    }
    Ok(if sealed { Exit::DONE } else { Exit::FAILED })
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
