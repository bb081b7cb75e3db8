//! Programs of the operator's own that give out a key or an endpoint. They are started without a shell, in the operator's own
//! environment, and nothing that they say but the answer is kept.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cto_contract::time::Utc;
use cto_egress::{KeySource, Secret, Token};
use cto_rules::credential;
use cto_sandbox::{
    End, LaunchRequest, Launcher, Limits, Network, Recorder, Root, SandboxMessage, StopToken,
    Stream, TreeLimits,
};

use crate::clock;
use crate::environment::Environment;
use crate::error_chain;

const WALL: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: u64 = 16 * 1024;

/// A program, and what its answer is called in a message.
pub(super) struct OwnProgram {
    pub(super) what: &'static str,
    pub(super) command: Vec<String>,
    pub(super) launcher: Launcher,
    pub(super) env: Environment,
}

impl OwnProgram {
    /// Runs it and returns what it printed.
    pub(super) fn ask(&self, stop: &StopToken) -> Result<String, String> {
        let request = LaunchRequest {
            argv: self.command.iter().map(Into::into).collect(),
            env: self
                .env
                .pairs()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            cwd: "/".into(),
            stdin: cto_sandbox::Stdin::Closed,
            binds: Vec::new(),
            overlay: None,
            limits: Limits {
                wall: WALL,
                output_bytes: ANSWER_BYTES_MAX,
                cpu_seconds: None,
                file_bytes: None,
                open_files: None,
                processes: None,
            },
            // It may have to ask a service.
            network: Network::Host,
            grace: Duration::from_secs(1),
            root: Root::Host,
            tree: TreeLimits::default(),
            run_as: None,
            recorder: Recorder::Off,
            endpoint: None,
        };
        let what = self.what;
        let mut said = Vec::new();
        let launched = self.launcher.launch(&request, stop, &mut |message, _| {
            if let SandboxMessage::Output(Stream::Stdout, bytes) = message {
                said.extend_from_slice(bytes);
            }
        });
        let outcome = launched
            .map_err(|error| format!("the {what} could not be started: {}", error_chain(&error)))?;
        match outcome.end {
            End::Exited(0) if !outcome.output.capped => String::from_utf8(said)
                .map_err(|_| format!("the {what} printed something that is no text")),
            End::Exited(0) => Err(format!("the {what} printed too much")),
            End::Exited(code) => Err(format!("the {what} ended with code {code}")),
            End::Signaled(_) | End::NotStarted => Err(format!("the {what} did not end by itself")),
        }
    }
}

/// All keys that were ever given out in a run: none of them may be seen.
#[derive(Clone, Default)]
pub(crate) struct GivenKeys(Arc<Mutex<Vec<String>>>);

impl GivenKeys {
    pub(super) fn add(&self, key: &str) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.iter().any(|known| known == key) {
            keys.push(key.to_owned());
        }
    }

    /// For whoever takes secrets out.
    pub(crate) fn secrets(&self) -> Vec<(String, Vec<u8>)> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = keys
            .iter()
            .map(|key| ("model_key".to_owned(), key.clone().into_bytes()));
        named.collect()
    }
}

/// Keys by a program, for as long as a run lasts.
pub(super) struct CommandKeys {
    pub(super) program: OwnProgram,
    pub(super) given: GivenKeys,
    pub(super) stop: KeysStop,
}

/// Ends a program that is asked for a key: before the backend with the run, and from then on with the forwarder.
#[derive(Clone)]
pub(crate) struct KeysStop(Arc<KeysStops>);

struct KeysStops {
    run: StopToken,
    forwarder: StopToken,
    has_begun: AtomicBool,
}

impl KeysStop {
    pub(super) fn new(run: &StopToken) -> io::Result<Self> {
        Ok(Self(Arc::new(KeysStops {
            run: run.clone(),
            forwarder: StopToken::new()?,
            has_begun: AtomicBool::new(false),
        })))
    }

    /// The forwarder begins its work.
    pub(crate) fn begin(&self) {
        self.0.has_begun.store(true, Ordering::Release);
    }

    /// The forwarder is to end, whatever anybody waits for.
    pub(crate) fn end(&self) {
        self.0.forwarder.kill();
    }

    fn token(&self) -> &StopToken {
        match self.0.has_begun.load(Ordering::Acquire) {
            true => &self.0.forwarder,
            false => &self.0.run,
        }
    }
}

impl KeySource for CommandKeys {
    fn fetch(&self) -> Result<Token, String> {
        let what = self.program.what;
        let printed = self.program.ask(self.stop.token())?;
        // Before anything else can go wrong with it: whatever it is, it is not for others.
        self.given
            .add(printed.lines().next().unwrap_or_default().trim());
        let credential = credential::read(&printed, self.now())
            .map_err(|error| format!("the {what} gave no key: {error}"))?;
        let key = Secret::new(&credential.key)
            .map_err(|error| format!("the {what} gave no key: {error}"))?;
        Ok(Token {
            key,
            expires_at: credential.expires_at,
        })
    }

    fn now(&self) -> Utc {
        clock::now()
    }
}
