//! The launcher process: takes its policy, makes the namespaces, and stays behind to wait for their init.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};

use crate::building;
use crate::canary::{MountTable, Plan};
use crate::endpoint::{self, Offered};
use crate::facts::{Applied, BaseStep, Confiner, Facts, Fallback, Refusal, RootFacts};
use crate::init::{self, RootSetup, say};
use crate::mounts::{self, failure};
use crate::namespaces::{self, IdMaps};
use crate::outcome::{Class, Provider};
use crate::pad::{self, PAD_NAME};
use crate::payload::{Image, Restrictions};
use crate::provider::{LAUNCHER_INSIDE, bwrap, container, provided, weak};
use crate::recorder::{self, handover::RecorderSetup};
use crate::ruleset::Rules;
use crate::seccomp;
use crate::sources::Sources;
use crate::sys::{self, Notice};
use crate::tree_watch::TreeWatch;
use crate::unprivileged::{self, Owners};
use crate::wire::{self, Failure, Message, Policy, RootPolicy, Step, Way};

/// Exit code of an init that was refused its namespaces; it has told the harness why.
const EXIT_REFUSED: u8 = 77;

/// Returns the exit code of a pad or a launcher if this process was started as one, that is by name and with a socket to its
/// harness.
pub(crate) fn entry() -> Option<u8> {
    let name = std::env::args_os().next()?;
    if name == PAD_NAME && stdin_is_socket() {
        return free_stdin(None).map(pad::serve);
    }
    let joined = name == LAUNCHER_INSIDE && (stdin_is_socket() || join_harness().is_some());
    joined.then(|| run(None))
}

/// In a container nothing is inherited: its launcher goes to the harness by a socket that was mounted for it.
fn join_harness() -> Option<()> {
    let (control, output) = container::join()?;
    sys::become_stdin(control.as_fd()).ok()?;
    let [stdout, stderr] = &output;
    sys::become_output([stdout.as_fd(), stderr.as_fd()]).ok()
}

fn stdin_is_socket() -> bool {
    rustix::fs::fstat(sys::stdin())
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
}

/// Does the launcher's work, with its control socket as standard input. `owners` may have been made ahead.
pub(crate) fn run(owners: Option<&Owners>) -> u8 {
    sys::block_all_signals();
    rustix::thread::set_name(c"cto-launcher").ok();
    let Some((control, policy)) = take_policy(owners) else {
        return wire::EXIT_NO_POLICY;
    };
    let image = match Image::of(&policy) {
        Ok(image) => image,
        Err(error) => {
            say(&control, &Message::Failed(failure(Step::Prepare, &error)));
            return wire::EXIT_ORDERLY;
        }
    };
    match &policy.way {
        Way::Native => {}
        Way::Weak => return weak::run(&control, &policy, &image),
        Way::Unconfined => return run_as_group(&control, &policy, &image),
        Way::Bwrap(outer) => return bwrap::become_provider(&control, &policy, outer),
        Way::Provided(outside) => return provided::run(&control, &policy, image, outside),
    }
    if !policy.force_group
        && let Some(code) = run_in_namespaces(&control, &policy, &image, owners)
    {
        return code;
    }
    run_as_group(&control, &policy, &image)
}

/// Frees the process of everything inherited, and reads what to do.
fn take_policy(owners: Option<&Owners>) -> Option<(UnixStream, Policy)> {
    let mut control = UnixStream::from(free_stdin(owners)?);
    let policy = Policy::read(&mut control).ok()?;
    Some((control, policy))
}

/// Closes everything but the three streams and what was made ahead, and returns what was standard input.
fn free_stdin(owners: Option<&Owners>) -> Option<OwnedFd> {
    sys::close_all_but(owners.map(|owners| owners.namespace.as_fd())).ok()?;
    let socket: OwnedFd = rustix::io::fcntl_dupfd_cloexec(sys::stdin(), 3).ok()?;
    let null = rustix::fs::open(
        c"/dev/null",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .ok()?;
    sys::become_stdin(null.as_fd()).ok()?;
    Some(socket)
}

/// Runs the command under an init in new namespaces. `None`: the kernel refuses them, the harness knows why, and nothing was started.
fn run_in_namespaces(
    control: &UnixStream,
    policy: &Policy,
    image: &Image,
    owners: Option<&Owners>,
) -> Option<u8> {
    let prepared = match prepare(policy, owners) {
        Ok(prepared) => prepared,
        Err(failure) => {
            say(control, &Message::Failed(failure));
            return Some(wire::EXIT_ORDERLY);
        }
    };
    let (from_init, to_launcher) = match UnixStream::pair() {
        Ok(pair) => pair,
        Err(error) => {
            say(control, &Message::Failed(failure(Step::Prepare, &error)));
            return Some(wire::EXIT_ORDERLY);
        }
    };
    // After a change of the user.
    let maps = IdMaps::identity();
    let forked = sys::fork_into(sys::BASE_NAMESPACES, || {
        init_main(control, policy, image, &maps, prepared, to_launcher)
    });
    // Until here it had to be able to write its child's map.
    hide_from_command();
    let init = match forked {
        Ok(init) => init,
        Err(error) => {
            let refusal = Refusal {
                step: BaseStep::Create,
                errno: error.raw_os_error().unwrap_or(libc::EIO),
            };
            say(control, &Message::Refused(refusal));
            return None;
        }
    };
    let end = match policy.record {
        true => recorder::attend(init, control, from_init, policy),
        false => wait_for_init(init),
    };
    match end {
        InitEnd::Code(EXIT_REFUSED) => None,
        InitEnd::Code(wire::EXIT_ORDERLY) => Some(wire::EXIT_ORDERLY),
        InitEnd::Code(_) | InitEnd::Killed => Some(wire::EXIT_INIT_DIED),
    }
}

/// What was done as root for a launch that will not be root.
struct Prepared {
    sources: Option<Sources>,
    dropped: Applied,
}

/// Stops being root where that is asked for and possible.
fn prepare(policy: &Policy, owners: Option<&Owners>) -> Result<Prepared, Failure> {
    let kept = |dropped| Prepared {
        sources: None,
        dropped,
    };
    let Some(root) = policy.root.as_ref().filter(|_| unprivileged::is_root()) else {
        return Ok(kept(Applied::NotAsked));
    };
    match unprivileged::open_for(policy, root, owners) {
        Ok(sources) => {
            unprivileged::become_user(policy.run_as)
                .map_err(|error| failure(Step::DropPrivileges, &error))?;
            Ok(Prepared {
                sources: Some(sources),
                dropped: Applied::Yes,
            })
        }
        // Should it be for another reason, the same will fail again without other owners, and be told.
        Err(Failure { errno, .. }) => Ok(kept(Applied::Refused { errno })),
    }
}

pub(crate) enum InitEnd {
    Code(u8),
    Killed,
}

/// Waits until the namespace is empty: the kernel shows init's end only after the end of all others in it.
pub(crate) fn wait_for_init(init: Pid) -> InitEnd {
    loop {
        match sys::wait_notice() {
            // Safe from reuse: the number is free only after the wait below.
            Notice::Term => {
                rustix::process::kill_process(init, Signal::KILL).ok();
            }
            Notice::Child => {
                if let Some(end) = init_end(init) {
                    return end;
                }
            }
        }
    }
}

/// Returns how the init has ended, if it has.
pub(crate) fn init_end(init: Pid) -> Option<InitEnd> {
    let waited = rustix::process::waitpid(Some(init), WaitOptions::NOHANG);
    let (_, status) = waited.ok().flatten()?;
    let code = status.exit_status();
    let code = code.and_then(|code| u8::try_from(code).ok());
    Some(code.map_or(InitEnd::Killed, InitEnd::Code))
}

fn init_main(
    control: &UnixStream,
    policy: &Policy,
    image: &Image,
    maps: &IdMaps,
    prepared: Prepared,
    to_launcher: UnixStream,
) -> u8 {
    // For a launcher that dies alone; for a harness that dies there is the life-line.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
    rustix::thread::set_name(c"cto-init").ok();
    if let Err(refusal) = namespaces::complete_base(maps) {
        say(control, &Message::Refused(refusal));
        return EXIT_REFUSED;
    }
    let users = own_users(policy);
    hide_from_command();
    let extras = namespaces::enter_extras(policy.network);
    let made = match &policy.root {
        None => mounts::mount_all(policy).map(|()| None),
        Some(root) => make_root(policy, root, prepared.sources, extras.own_proc).map(Some),
    };
    let setup = match made.and_then(|setup| add_recorder(setup, users, to_launcher, policy)) {
        Ok(setup) => setup,
        Err(failure) => {
            say(control, &Message::Failed(failure));
            return wire::EXIT_ORDERLY;
        }
    };
    let endpoint = match open_endpoint(control, policy, extras.network) {
        Ok(Some(endpoint)) => endpoint,
        // The harness is gone or wants an end.
        Ok(None) => return wire::EXIT_ORDERLY,
        Err(failure) => {
            say(control, &Message::Failed(failure));
            return wire::EXIT_ORDERLY;
        }
    };
    let facts = Facts {
        class: Class::Process,
        fallback: None,
        network: extras.network,
        loopback: extras.loopback,
        ipc: extras.ipc,
        uts: extras.uts,
        own_proc: extras.own_proc,
        read_only: if policy.binds.is_empty() && policy.root.is_none() {
            Applied::NotAsked
        } else {
            Applied::Yes
        },
        no_capabilities: extras.no_capabilities,
        uid: rustix::process::geteuid().as_raw(),
        inner: match &setup {
            None => RootFacts::NOT_ASKED,
            Some(setup) => RootFacts {
                root: Applied::Yes,
                landlock: setup.restrictions.rules.fact,
                seccomp: Applied::Yes,
                dropped: prepared.dropped,
                // As far as the kernel gives a listener, which the command's process will find out.
                recorder: match policy.record {
                    true => Applied::Yes,
                    false => Applied::NotAsked,
                },
            },
        },
        by: Confiner::NATIVE,
        endpoint,
        memory_group: Applied::NotAsked,
    };
    say(control, &Message::Ready(facts));
    init::supervise(control, image, setup, Class::Process)
}

/// Makes the endpoint, if there is to be one. `None`: it was not taken over, and nothing is to be started.
pub(crate) fn open_endpoint(
    control: &UnixStream,
    policy: &Policy,
    network: Applied,
) -> Result<Option<Applied>, Failure> {
    let Some(port) = policy.endpoint else {
        return Ok(Some(Applied::NotAsked));
    };
    if network != Applied::Yes {
        // On the host's network it would be anybody's.
        return Err(Failure {
            step: Step::EndpointNeedsNamespaces,
            errno: libc::EPERM,
        });
    }
    match endpoint::offer(control, port) {
        Ok(Offered::Taken) => Ok(Some(Applied::Yes)),
        Ok(Offered::Declined) => Ok(None),
        Err(error) => Err(failure(Step::Listen, &error)),
    }
}

/// Builds and enters the root, and prepares what each process in it puts on itself.
fn make_root(
    policy: &Policy,
    root: &RootPolicy,
    sources: Option<Sources>,
    own_proc: Applied,
) -> Result<RootSetup, Failure> {
    let sources = match sources {
        Some(sources) => sources,
        None => Sources::open(policy, root, None)?,
    };
    let built = building::build(policy, root, sources, own_proc)?;
    let rules = Rules::of(&built).map_err(|error| failure(Step::Landlock, &error))?;
    let restrictions = Restrictions {
        rules,
        filter: seccomp::filter(),
        asking: policy.record.then(seccomp::asking_filter),
    };
    let plan = Plan::of(policy, root, &built, MountTable::Own);
    let watch = TreeWatch::of(policy, built).map_err(|error| failure(Step::SetLimits, &error))?;
    Ok(RootSetup {
        restrictions,
        plan,
        watch,
        recorder: None,
    })
}

/// Opens the user namespace for the recorder, while `/proc` still names this process.
fn own_users(policy: &Policy) -> io::Result<Option<OwnedFd>> {
    match policy.record {
        false => Ok(None),
        true => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            Ok(Some(rustix::fs::open(
                c"/proc/self/ns/user",
                flags,
                Mode::empty(),
            )?))
        }
    }
}

/// Adds what the recorder needs to the setup.
fn add_recorder(
    setup: Option<RootSetup>,
    users: io::Result<Option<OwnedFd>>,
    launcher: UnixStream,
    policy: &Policy,
) -> Result<Option<RootSetup>, Failure> {
    let trouble = |error: io::Error| failure(Step::Recorder, &error);
    match (setup, users.map_err(trouble)?) {
        (Some(setup), Some(users)) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let root = rustix::fs::open(c"/", flags, Mode::empty());
            let root = root.map_err(|error| trouble(error.into()))?;
            let recorder = Some(RecorderSetup {
                launcher,
                users,
                root,
                has_overlay: policy.overlay.is_some(),
            });
            Ok(Some(RootSetup { recorder, ..setup }))
        }
        (setup, _) => Ok(setup),
    }
}

/// Without namespaces: an own group whose orphans all fall to this process.
fn run_as_group(control: &UnixStream, policy: &Policy, image: &Image) -> u8 {
    let elsewhere = policy.binds.iter().find(|bind| bind.from != bind.at);
    let impossible = match elsewhere {
        _ if policy.root.is_some() => Some(Step::RootNeedsNamespaces),
        _ if policy.overlay.is_some() => Some(Step::OverlayNeedsNamespaces),
        _ if policy.endpoint.is_some() => Some(Step::EndpointNeedsNamespaces),
        Some(bind) => Some(Step::BindNeedsNamespaces(bind.at.clone())),
        None => None,
    };
    if let Some(step) = impossible {
        let errno = libc::EPERM;
        say(control, &Message::Failed(Failure { step, errno }));
        return wire::EXIT_ORDERLY;
    }
    hide_from_command();
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        say(
            control,
            &Message::Failed(failure(Step::Prepare, &error.into())),
        );
        return wire::EXIT_ORDERLY;
    }
    let uid = rustix::process::geteuid().as_raw();
    // Only uid 0 gains capabilities by executing something, once no_new_privs is set.
    let no_capabilities = match uid {
        0 => namespaces::applied(sys::empty_bounding_set()),
        _ => Applied::Yes,
    };
    let (class, fallback) = match (&policy.way, policy.force_group) {
        (Way::Unconfined, _) => (Class::None, Some(Fallback::Unconfined)),
        (_, true) => (Class::Group, Some(Fallback::Forced)),
        (_, false) => (Class::Group, None),
    };
    let mut facts = Facts::group(fallback, uid, no_capabilities);
    if class == Class::None {
        facts.class = class;
        facts.by.provider = Provider::None;
    }
    say(control, &Message::Ready(facts));
    init::supervise(control, image, None, class)
}

/// Keeps the command, which may have the same user, from tracing its supervisor or opening its descriptors.
pub(crate) fn hide_from_command() {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
}
