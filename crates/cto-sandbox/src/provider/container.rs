//! One container for one launch: started by its engine's command line, spoken to over a socket, and seen to be gone.
//!
//! The launcher inside connects to a socket that is mounted into the container, gets the ends of the output pipes over it,
//! and then speaks as in every other launch. The socket takes exactly one connection, before the command exists. Should
//! the harness die, the hang-up ends the container's first process and with it the container.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::process::{Pid, PidfdFlags, Signal};

use super::container_arguments::{Made, arguments, image, image_name, root_of};
use super::provider_stderr::last_line;
use super::{CONTROL_INSIDE, Container};
use crate::error::LaunchError;
use crate::launcher::Launcher;
use crate::mounts::by_descriptor;
use crate::outcome::{Proof, Survivors};
use crate::request::LaunchRequest;
use crate::sources::open_directory;

/// How long an engine may take to start a container; the first one may have to prepare its storage.
const START_PATIENCE: Duration = Duration::from_secs(120);
/// How long it may take to answer a question or to remove a container.
const CALL_PATIENCE: Duration = Duration::from_secs(60);
/// Most bytes of an engine's words that are kept.
const WORDS_MAX: u64 = 2048;

/// A container that was started, or is being started. Dropping it removes what is left of it.
pub(crate) struct Running {
    container: Container,
    name: String,
    room: PathBuf,
    is_gone: bool,
}

/// What the harness holds of a container in which a launcher waits for its policy.
pub(crate) struct Started {
    pub(crate) engine: Child,
    pub(crate) control: UnixStream,
    pub(crate) running: Running,
}

/// Starts a container and waits for its launcher. The output ends are passed in and closed here.
pub(crate) fn start(
    launcher: &Launcher,
    container: &Container,
    request: &LaunchRequest,
    output: [OwnedFd; 2],
) -> Result<Started, LaunchError> {
    let failed = |what: &'static str| move |source| LaunchError::Io { what, source };
    let name = new_name().map_err(failed("name a container"))?;
    let room = container.room.join(&name);
    let running = Running {
        container: container.clone(),
        name: name.clone(),
        room: room.clone(),
        is_gone: false,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&room)
        .map_err(failed("make a room for a container"))?;
    let root = root_of(request)?;
    let mut files = Vec::new();
    for (number, (_, bytes)) in root.files.iter().enumerate() {
        let path = room.join(number.to_string());
        new_file(&path, bytes).map_err(failed("write a file of the root"))?;
        files.push(path);
    }
    let listener = listen(&room).map_err(failed("listen for a container"))?;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let made = Made {
        name,
        image: ensure_image(container, &image(root)?, &room)?,
        launcher: launcher.file()?,
        control: room.join("control"),
        files,
        user: (user.as_raw(), group.as_raw()),
    };
    let line = arguments(container.engine, request, &made)?;
    let words = File::create_new(room.join("words")).map_err(failed("make a file"))?;
    let mut engine = call(container, &line, Stdio::null(), words.into())?;
    let stream = match wait_for_launcher(&listener, &engine) {
        Ok(stream) => stream,
        Err(how) => {
            engine.kill().ok();
            engine.wait().ok();
            let mut said = Vec::new();
            File::open(room.join("words"))
                .and_then(|file| file.take(WORDS_MAX).read_to_end(&mut said))
                .ok();
            return Err(LaunchError::Provider {
                provider: container.program.clone(),
                said: last_line(&said).unwrap_or(how),
            });
        }
    };
    let sent = send_output(&stream, &output);
    let sent = sent.and_then(|()| stream.set_nonblocking(true));
    if let Err(source) = sent {
        engine.kill().ok();
        engine.wait().ok();
        return Err(failed("hand over the output")(source));
    }
    Ok(Started {
        engine,
        control: stream,
        running,
    })
}

impl Running {
    /// Makes sure that the container is gone, once the engine's command has ended.
    pub(crate) fn finish(mut self) -> Survivors {
        let gone = self.is_listed().and_then(|listed| match listed {
            false => Ok(true),
            true => self.remove().and_then(|()| Ok(!self.is_listed()?)),
        });
        match gone {
            Ok(true) => {
                self.is_gone = true;
                Survivors::None {
                    proof: Proof::ContainerGone,
                }
            }
            Ok(false) => Survivors::Unknown {
                reason: format!("container {} could not be removed", self.name),
            },
            Err(error) => Survivors::Unknown {
                reason: format!(
                    "the engine does not say whether {} is gone: {error}",
                    self.name
                ),
            },
        }
    }

    fn is_listed(&self) -> Result<bool, LaunchError> {
        let filter = format!("name=^{}$", self.name);
        let line = ["ps", "-a", "-q", "--filter", &filter].map(OsString::from);
        Ok(!ask(&self.container, &line)?.trim().is_empty())
    }

    fn remove(&self) -> Result<(), LaunchError> {
        let line = ["rm", "-f", &self.name].map(OsString::from);
        ask(&self.container, &line).map(drop)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_gone {
            self.remove().ok();
        }
        std::fs::remove_dir_all(&self.room).ok();
    }
}

fn new_name() -> io::Result<String> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("cto-{:016x}", u64::from_ne_bytes(bytes)))
}

fn new_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    File::create_new(path)?.write_all(bytes)
}

/// Listens by descriptor, because the room's path may be longer than a socket's name can be.
fn listen(room: &Path) -> io::Result<UnixListener> {
    let folder = open_directory(room)?;
    UnixListener::bind(Path::new(&by_descriptor(&folder)).join("control"))
}

fn wait_for_launcher(listener: &UnixListener, engine: &Child) -> Result<UnixStream, String> {
    let exit = handle(engine).map_err(|error| error.to_string())?;
    let deadline = Instant::now() + START_PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("nothing came in {} s", START_PATIENCE.as_secs()));
        }
        let [connected, ended] = wait_for([listener.as_fd(), exit.as_fd()], left);
        if connected {
            return match listener.accept() {
                Ok((stream, _)) => Ok(stream),
                Err(error) => Err(error.to_string()),
            };
        }
        if ended {
            return Err("it ended before the launcher inside answered".to_owned());
        }
    }
}

fn handle(child: &Child) -> io::Result<OwnedFd> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::NotFound)?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

fn wait_for<const N: usize>(fds: [BorrowedFd<'_>; N], left: Duration) -> [bool; N] {
    let mut list = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let timeout = Timespec::try_from(left).ok();
    rustix::event::poll(&mut list, timeout.as_ref()).ok();
    list.map(|fd| !fd.revents().is_empty())
}

/// Returns the name of an image that holds the archive, importing it where the engine has none.
fn ensure_image(container: &Container, archive: &[u8], room: &Path) -> Result<String, LaunchError> {
    let name = image_name(archive);
    let line = ["image", "inspect", "--format", "{{.Id}}", &name].map(OsString::from);
    if ask(container, &line).is_ok() {
        return Ok(name);
    }
    let file = room.join("image.tar");
    new_file(&file, archive).map_err(|source| LaunchError::Io {
        what: "write an image",
        source,
    })?;
    let line = [
        "import".into(),
        file.into_os_string(),
        OsString::from(&name),
    ];
    ask(container, &line)?;
    Ok(name)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where a container's engine starts"
)]
fn call(
    container: &Container,
    line: &[OsString],
    stdout: Stdio,
    stderr: Stdio,
) -> Result<Child, LaunchError> {
    use std::os::unix::process::CommandExt;
    Command::new(&container.program)
        .args(line)
        .env_clear()
        .envs(&container.env)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .map_err(|source| LaunchError::ProviderMissing {
            provider: container.program.clone(),
            source,
        })
}

/// Asks the engine something with a short answer. What does not end in time is killed.
fn ask(container: &Container, line: &[OsString]) -> Result<String, LaunchError> {
    let mut child = call(container, line, Stdio::piped(), Stdio::piped())?;
    let ended = handle(&child).map(|exit| {
        let [ended] = wait_for([exit.as_fd()], CALL_PATIENCE);
        if !ended {
            rustix::process::pidfd_send_signal(&exit, Signal::KILL).ok();
        }
        ended
    });
    let status = child.wait();
    let read = |stream: Option<&mut dyn Read>| {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            stream.take(WORDS_MAX).read_to_end(&mut bytes).ok();
        }
        bytes
    };
    let said = read(child.stderr.as_mut().map(|s| s as &mut dyn Read));
    let answer = read(child.stdout.as_mut().map(|s| s as &mut dyn Read));
    match (ended, status) {
        (Ok(true), Ok(status)) if status.success() => {
            Ok(String::from_utf8_lossy(&answer).into_owned())
        }
        (ended, status) => {
            let how = match (ended, status) {
                (Ok(false), _) => format!("no answer in {} s", CALL_PATIENCE.as_secs()),
                (Err(error), _) | (_, Err(error)) => error.to_string(),
                (Ok(true), Ok(status)) => status.to_string(),
            };
            let what = line.first().map_or(OsStr::new(""), |word| word);
            Err(LaunchError::Provider {
                provider: container.program.clone(),
                said: format!("{}: {}", what.display(), last_line(&said).unwrap_or(how)),
            })
        }
    }
}

/// Sends the ends of the output pipes.
fn send_output(stream: &UnixStream, output: &[OwnedFd; 2]) -> io::Result<()> {
    let fds = [output[0].as_fd(), output[1].as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let data = [io::IoSlice::new(b"o")];
    rustix::net::sendmsg(stream, &data, &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// The other end, inside: connects to the harness and takes its output ends. `None`: there is no harness.
pub(crate) fn join() -> Option<(UnixStream, [OwnedFd; 2])> {
    let stream = UnixStream::connect(CONTROL_INSIDE).ok()?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut data = [io::IoSliceMut::new(&mut byte)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(&stream, &mut data, &mut ancillary, flags).ok()?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            fds.extend(sent);
        }
    }
    let output = fds.try_into().ok()?;
    Some((stream, output))
}
