//! A dialogue with a command: what it is told on its standard input, how long it takes, and how it is ended.

use std::path::Path;
use std::time::Duration;

use cto_sandbox::{
    End, LaunchRequest, Launcher, Means, Outcome, Recorder, Replies, STDIN_WAITING_MAX,
    SandboxMessage, Stdin, StdinTotals, StopCause, StopToken, Stream, TICK_INTERVAL,
};

use crate::support::{
    Lock, assert_nothing_survived, bwrap, by, daemon_script, fallback, has_namespaces, in_place,
    launcher, script,
};

const MIB: usize = 1024 * 1024;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// One way to confine a command.
struct Way {
    launcher: Launcher,
    /// Whether the command gets a root that shows the system and one folder, and whether it is recorded there.
    root: Option<Recorder>,
}

impl Way {
    /// All of those that this machine has.
    fn all() -> Vec<Self> {
        let way = |launcher, root| Self { launcher, root };
        let mut ways = vec![
            way(launcher(), None),
            way(fallback(), None),
            way(by(Means::None), None),
            way(by(Means::Weak), Some(Recorder::Off)),
        ];
        if has_namespaces() {
            ways.push(way(launcher(), Some(Recorder::Off)));
            ways.push(way(launcher(), Some(Recorder::On)));
        }
        ways.extend(bwrap().map(|launcher| way(launcher, Some(Recorder::Off))));
        ways
    }

    fn request(&self, request: LaunchRequest, folder: &Path) -> LaunchRequest {
        let request = LaunchRequest {
            stdin: Stdin::Written,
            ..request
        };
        match self.root {
            None => request,
            Some(recorder) => LaunchRequest {
                recorder,
                ..in_place(request, folder)
            },
        }
    }
}

fn launch(
    launcher: &Launcher,
    request: &LaunchRequest,
    mut listener: impl FnMut(SandboxMessage<'_>, &mut Replies),
) -> Outcome {
    let stop = StopToken::new().unwrap();
    let outcome = launcher.launch(request, &stop, &mut listener).unwrap();
    assert_nothing_survived(&outcome);
    outcome
}

/// Launches a script with a written standard input.
fn launch_script(text: &str, listener: impl FnMut(SandboxMessage<'_>, &mut Replies)) -> Outcome {
    let request = LaunchRequest {
        stdin: Stdin::Written,
        ..script(text)
    };
    launch(&launcher(), &request, listener)
}

/// Talks to a command that answers each line, until it is told that there are no more.
pub(crate) fn talk(launcher: &Launcher, request: LaunchRequest) {
    let text = r#"while read -r line; do echo "got $line"; done; echo end; exit 4"#;
    let request = LaunchRequest {
        stdin: Stdin::Written,
        argv: ["/bin/sh", "-c", text].map(Into::into).to_vec(),
        ..request
    };
    let (mut output, mut starts) = (String::new(), 0);
    let outcome = launch(launcher, &request, |message, replies| match message {
        SandboxMessage::Started => {
            assert_eq!(output, "");
            starts += 1;
            replies.tell(b"one\n");
        }
        SandboxMessage::Output(_, bytes) => {
            output.push_str(std::str::from_utf8(bytes).unwrap());
            match output.as_str() {
                "got one\n" => replies.tell(b"two\n"),
                "got one\ngot two\n" => replies.close_stdin(),
                _ => {}
            }
        }
        SandboxMessage::Attempt(_) | SandboxMessage::Activity(_) | SandboxMessage::Tick { .. } => {}
    });
    assert_eq!(
        (starts, output.as_str()),
        (1, "got one\ngot two\nend\n"),
        "{outcome:?}"
    );
    assert_eq!((outcome.end, outcome.stopped_by), (End::Exited(4), None));
    let totals = StdinTotals {
        written_bytes: 8,
        dropped_bytes: 0,
    };
    assert_eq!(outcome.stdin, totals);
}

#[test]
fn a_command_hears_what_it_is_told_and_answers_under_every_means() {
    for way in Way::all() {
        let folder = tempfile::tempdir().unwrap();
        talk(&way.launcher, way.request(script(""), folder.path()));
    }
}

/// Bytes of every value in no simple order.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn megabytes_go_in_and_out_at_once_exact_and_in_order() {
    let payload = noise(8 * MIB);
    for way in Way::all() {
        let folder = tempfile::tempdir().unwrap();
        let mut request = way.request(script("exec cat"), folder.path());
        request.limits.output_bytes = u64::MAX;
        let mut output = Vec::new();
        let outcome = launch(&way.launcher, &request, |message, replies| match message {
            SandboxMessage::Started => {
                for piece in payload.chunks(70_001) {
                    replies.tell(piece);
                }
                replies.close_stdin();
            }
            SandboxMessage::Output(_, bytes) => output.extend_from_slice(bytes),
            SandboxMessage::Attempt(_)
            | SandboxMessage::Activity(_)
            | SandboxMessage::Tick { .. } => {}
        });
        assert!(output == payload, "{} {outcome:?}", output.len());
        assert_eq!((outcome.end, outcome.stopped_by), (End::Exited(0), None));
        assert_eq!(outcome.stdin.written_bytes, payload.len() as u64);
    }
}

#[test]
fn more_than_may_wait_goes_through_a_command_that_reads() {
    let payload = noise(STDIN_WAITING_MAX + 4 * MIB);
    let (mut told, mut seen) = (0, 0);
    let mut request = script("exec cat");
    request.stdin = Stdin::Written;
    request.limits.output_bytes = u64::MAX;
    let outcome = launch(&launcher(), &request, |message, replies| {
        let more = match message {
            SandboxMessage::Started => MIB,
            SandboxMessage::Output(_, bytes) => {
                assert!(payload[seen..].starts_with(bytes));
                seen += bytes.len();
                bytes.len()
            }
            SandboxMessage::Attempt(_)
            | SandboxMessage::Activity(_)
            | SandboxMessage::Tick { .. } => return,
        };
        let next = &payload[told..payload.len().min(told + more)];
        told += next.len();
        replies.tell(next);
        if told == payload.len() {
            replies.close_stdin();
        }
    });
    assert_eq!((outcome.end, outcome.stopped_by), (End::Exited(0), None));
    assert_eq!((seen, told), (payload.len(), payload.len()));
}

#[test]
fn a_command_that_never_reads_prints_and_ends_all_the_same() {
    let told = vec![b'x'; MIB];
    let mut lines = 0;
    let outcome = launch_script("seq 1 100000; exit 3", |message, replies| match message {
        SandboxMessage::Started => replies.tell(&told),
        SandboxMessage::Output(_, bytes) => {
            lines += bytes.iter().filter(|&&byte| byte == b'\n').count();
        }
        SandboxMessage::Attempt(_) | SandboxMessage::Activity(_) | SandboxMessage::Tick { .. } => {}
    });
    assert_eq!((outcome.end, outcome.stopped_by), (End::Exited(3), None));
    assert_eq!(lines, 100_000);
    let StdinTotals {
        written_bytes,
        dropped_bytes,
    } = outcome.stdin;
    assert_eq!(written_bytes + dropped_bytes, MIB as u64);
    assert!(written_bytes < dropped_bytes, "{:?}", outcome.stdin);
}

#[test]
fn who_is_told_far_more_than_it_reads_is_ended() {
    let told = vec![b'x'; MIB];
    let mut count = 0;
    let outcome = launch_script("echo ready; exec sleep 1000", |message, replies| {
        if matches!(message, SandboxMessage::Output(..)) {
            for _ in 0..=STDIN_WAITING_MAX / MIB {
                replies.tell(&told);
                count += told.len() as u64;
            }
        }
    });
    assert_eq!(
        (outcome.end, outcome.stopped_by),
        (End::Signaled(SIGTERM), Some(StopCause::StdinFull))
    );
    let StdinTotals {
        written_bytes,
        dropped_bytes,
    } = outcome.stdin;
    assert_eq!(written_bytes + dropped_bytes, count);
}

#[test]
fn a_command_that_closes_its_standard_input_lives_on() {
    let told = vec![b'x'; MIB];
    let mut is_closed = false;
    let text = "exec </dev/null; echo closed; exec sleep 1000";
    let outcome = launch_script(text, |message, replies| match message {
        SandboxMessage::Output(..) => {
            replies.tell(&told);
            is_closed = true;
        }
        SandboxMessage::Tick { .. } if is_closed => {
            replies.tell(&told);
            replies.finish();
        }
        SandboxMessage::Started
        | SandboxMessage::Attempt(_)
        | SandboxMessage::Activity(_)
        | SandboxMessage::Tick { .. } => {}
    });
    assert_eq!(
        (outcome.end, outcome.stopped_by),
        (End::Signaled(SIGTERM), Some(StopCause::Finished))
    );
    // At most a pipe full, should another process still have had the reading end in the first moment.
    assert!(outcome.stdin.written_bytes <= 65_536, "{:?}", outcome.stdin);
    assert_eq!(
        outcome.stdin.written_bytes + outcome.stdin.dropped_bytes,
        2 * MIB as u64
    );
}

#[test]
fn without_a_written_standard_input_nothing_is_told() {
    let mut output = Vec::new();
    let outcome = launch(
        &launcher(),
        &script("wc -c"),
        |message, replies| match message {
            SandboxMessage::Started => replies.tell(b"12345"),
            SandboxMessage::Output(_, bytes) => output.extend_from_slice(bytes),
            SandboxMessage::Attempt(_)
            | SandboxMessage::Activity(_)
            | SandboxMessage::Tick { .. } => {}
        },
    );
    assert_eq!(output, b"0\n");
    let totals = StdinTotals {
        written_bytes: 0,
        dropped_bytes: 5,
    };
    assert_eq!((outcome.stdin, outcome.stopped_by), (totals, None));
}

#[test]
fn a_finished_dialogue_ends_the_command_and_all_that_it_left_behind() {
    for way in Way::all() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::in_folder(folder.path());
        let request = daemon_script(folder.path(), &lock, "exec sleep 1000");
        let request = way.request(request, folder.path());
        let mut output = Vec::new();
        let outcome = launch(&way.launcher, &request, |message, replies| {
            // A shell that sees somebody killed says so on the other stream.
            if let SandboxMessage::Output(Stream::Stdout, bytes) = message {
                output.extend_from_slice(bytes);
                assert!(!lock.is_free());
                replies.finish();
            }
        });
        assert_eq!(output, b"held\n", "{outcome:?}");
        assert_eq!(
            (outcome.end, outcome.stopped_by),
            (End::Signaled(SIGTERM), Some(StopCause::Finished))
        );
        assert!(lock.is_free());
    }
}

#[test]
fn who_ignores_that_the_dialogue_is_finished_is_killed_after_the_grace() {
    let mut request = script("trap '' TERM; echo ready; while :; do sleep 1000; done");
    request.grace = Duration::from_millis(200);
    let outcome = launch(&launcher(), &request, |message, replies| {
        if matches!(message, SandboxMessage::Output(..)) {
            replies.finish();
        }
    });
    assert_eq!(
        (outcome.end, outcome.stopped_by),
        (End::Signaled(SIGKILL), Some(StopCause::Finished))
    );
    assert!(outcome.wall >= request.grace);
}

#[test]
fn a_dialogue_that_is_finished_at_once_leaves_nothing() {
    for way in Way::all() {
        let folder = tempfile::tempdir().unwrap();
        let request = way.request(script("exec sleep 1000"), folder.path());
        let outcome = launch(&way.launcher, &request, |_, replies| replies.finish());
        assert_eq!(outcome.stopped_by, Some(StopCause::Finished));
        assert_ne!(outcome.end, End::Exited(0));
    }
}

#[test]
fn a_command_that_ends_by_itself_before_is_not_stopped() {
    // Without namespaces its number is its number here, too.
    let outcome = launch(
        &fallback(),
        &script("echo $$; exit 6"),
        |message, replies| {
            if let SandboxMessage::Output(_, bytes) = message {
                let process = std::str::from_utf8(bytes).unwrap().trim();
                let place = Path::new("/proc").join(process);
                while place.exists() {
                    std::thread::yield_now();
                }
                replies.finish();
            }
        },
    );
    assert_eq!((outcome.end, outcome.stopped_by), (End::Exited(6), None));
}

#[test]
fn ticks_come_while_nothing_happens_so_that_a_dialogue_can_time_out() {
    let mut ticks = Vec::new();
    let outcome = launch_script("read -r line; exit 5", |message, replies| {
        if let SandboxMessage::Tick { since_start } = message {
            ticks.push(since_start);
            if ticks.len() == 3 {
                replies.close_stdin();
            }
        }
    });
    assert_eq!((outcome.end, outcome.stopped_by), (End::Exited(5), None));
    assert!(ticks.len() >= 3, "{ticks:?}");
    for pair in ticks.windows(2) {
        assert!(pair[1] >= pair[0] + TICK_INTERVAL, "{ticks:?}");
    }
}

#[test]
fn ticks_come_while_the_command_prints_without_end() {
    let outcome = launch_script("exec yes", |message, replies| {
        if matches!(message, SandboxMessage::Tick { .. }) {
            replies.finish();
        }
    });
    assert_eq!(outcome.stopped_by, Some(StopCause::Finished));
    assert!(outcome.output.stdout_bytes > 0);
}
