//! Commands of a role: each in a session of its own, where a kill of the group does not reach it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Most of a command's output that its role sees.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// What became of a command.
pub(super) struct Ran {
    pub(super) said: String,
    pub(super) is_error: bool,
}

/// Runs a command in a directory. What it leaves running in the background is not waited for.
#[expect(
    clippy::disallowed_methods,
    reason = "the double stands for a program that starts processes: inside the sandbox, like it"
)]
pub(super) fn run(program: &OsStr, command: &str, at: &Path, scratch: &Path) -> io::Result<Ran> {
    let random = cto_runner::random::<8>().map_err(io::Error::other)?;
    let name = format!("double-{}.out", cto_contract::ids::to_hex(&random));
    let path = scratch.join(name);
    let out = File::create_new(&path)?;
    let status = Command::new(program)
        .arg("--own-session")
        .arg(command)
        .current_dir(at)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .status()?;
    let mut said = Vec::new();
    File::open(&path)?
        .take(OUTPUT_BYTES_MAX)
        .read_to_end(&mut said)?;
    std::fs::remove_file(&path)?;
    Ok(Ran {
        said: String::from_utf8_lossy(&said).into_owned(),
        is_error: !status.success(),
    })
}

/// Leaves the session that it was started in, and becomes the command.
#[expect(
    clippy::disallowed_methods,
    reason = "the double stands for a program that starts processes: inside the sandbox, like it"
)]
pub(super) fn become_command(command: &str) -> ExitCode {
    // A leader of a group has its own session already.
    rustix::process::setsid().ok();
    let error = Command::new("/bin/bash").args(["-c", command]).exec();
    super::fatal(&format!("bash: {error}"))
}
