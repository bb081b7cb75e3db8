//! `cto engines allow|deny`: a lane's gates in `harness.yaml`, and records of the source and the program that are installed.
//!
//! What is written is made first and can be shown; writing it takes that very value.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cto_agent::{Places, base_environment};
use cto_contract::admission::{
    Admission, AdmissionStatus, BinaryAdmission, ExactVersion, ExecutionMode, IdentityCheck,
    Integrity, Note, RecordDate, Registry, SourceAdmission, SourceKind,
};
use cto_contract::config::GateConfig;
use cto_contract::event::Step;
use cto_contract::lanes::{Gating, ProgramSource};
use cto_contract::outputs::{EngineChangeOutput, EngineChangeTag, EngineRecord};
use cto_contract::text::shorten;
use cto_contract::time::Utc;
use cto_contract::words::{Lane, Stage};
use cto_rules::authority::AdmissionBook;
use cto_rules::gate_lines::{GateLinesError, gate_lines, with_gate};
use cto_rules::packages::{PackageManifest, locked_integrity, manifest};
use cto_rules::programs::{NodePackage, remedy};
use cto_rules::read_paths::ClosedBy;
use cto_rules::verdicts::{self, Fault};
use cto_sandbox::{
    End, LaunchRequest, Limits, Network, Recorder, Root, SandboxMessage, StopToken, Tmpfs,
    TreeLimits,
};

use crate::admissions::{AdmitError, admit_unsigned, read_filled_in};
use crate::harness::{Harness, scratch_name};
use crate::inside::{Inside, SCRATCH, Viewer};
use crate::installed::{self, InstalledProgram};
use crate::open_run::search_path;
use crate::program::{ProgramFile, ProgramsBeside, tree_digest};
use crate::sandbox::{RunSandbox, SandboxAsk};
use crate::sealing::clear;
use crate::{clock, error_chain};

const CONFIG_FILE: &str = "harness.yaml";
const ANSWER_WALL: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
const ANSWER_CHARS: usize = 200;
const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// Room for what a program writes when it is asked who it is.
const SCRATCH_BYTES: u64 = 256 << 20;
const SCRATCH_FILES: u64 = 20_000;

/// What a person asks for.
#[derive(Debug, Clone, Default)]
pub struct EngineAsk {
    /// Up to which stage; 3 without a word.
    pub stage: Option<Stage>,
    /// The registry's hash of the package, where the person looked it up.
    pub integrity: Option<Integrity>,
}

/// Why a lane was neither opened nor closed. Nothing was written, unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the {lane} lane {why}")]
    NotByConfig { lane: Lane, why: &'static str },
    #[error("{0}")]
    Program(String, String),
    #[error("`{program}` did not say what it is when it was asked: {why}")]
    Unasked { program: String, why: String },
    #[error("`{program}` answers \"{answer}\" when it is asked what it is: that is not {lane}")]
    OtherProgram {
        lane: Lane,
        program: String,
        answer: String,
    },
    #[error("`{path}` can't be changed")]
    Gates {
        path: PathBuf,
        lines: String,
        source: GateLinesError,
    },
    #[error("`{path}` can't be read or written")]
    File { path: PathBuf, source: io::Error },
    #[error("`{path}` was changed by somebody else meanwhile")]
    Changed { path: PathBuf },
    #[error("a record was not taken in")]
    Record(#[from] AdmitError),
    #[error("the records of operators can't be read")]
    Ledger(#[source] Box<cto_ledger::LedgerError>),
}

impl EngineError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotByConfig { .. } => "engine_not_by_config",
            Self::Program(..) => "engine_program_unusable",
            Self::Unasked { .. } => "engine_program_silent",
            Self::OtherProgram { .. } => "engine_program_other",
            Self::Gates { .. } => "gates_not_writable",
            Self::File { .. } => "engine_not_written",
            Self::Changed { .. } => "config_changed",
            Self::Record(_) => "record_not_written",
            Self::Ledger(_) => "ledger_unusable",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotByConfig { lane, .. } => {
                let names = [lane.gate(), lane.stage_gate()].into_iter().flatten();
                let names: Vec<String> = names.collect();
                match &names[..] {
                    [gate, stage] => format!("export {gate}=1 {stage}=<the stage's digit>"),
                    _ => "it needs no gate".to_owned(),
                }
            }
            Self::Program(_, hint) => hint.clone(),
            Self::Unasked { .. } => {
                "run it by hand with --version; `cto doctor` says whether it can be confined here"
                    .to_owned()
            }
            Self::OtherProgram { lane, .. } => {
                let name = lane.as_str().to_ascii_uppercase();
                format!("CTO_HARNESS_{name}_BIN names the right one")
            }
            Self::Gates { path, lines, .. } => {
                format!("put these lines into {} yourself:\n{lines}", path.display())
            }
            Self::Changed { .. } => "look at it, then say it again".to_owned(),
            Self::Record(AdmitError::Exists { .. }) => {
                "look at it (`cto admissions`); --replace lets the new one take its place"
                    .to_owned()
            }
            Self::File { .. } | Self::Record(_) | Self::Ledger(_) => return None,
        })
    }
}

/// What would be written.
#[derive(Debug, Clone)]
pub struct EngineOffer {
    lane: Lane,
    config_file: PathBuf,
    before: Option<String>,
    after: String,
    lines: String,
    records: Vec<Admission>,
    notes: Vec<String>,
}

impl EngineOffer {
    /// All of it, for showing.
    pub fn shown(&self) -> EngineChangeOutput {
        let records = self.records.iter().map(|record| EngineRecord {
            kind: record.kind(),
            subject: record.subject(),
            path: None,
            record: serde_json::to_value(record).unwrap_or_default(),
        });
        EngineChangeOutput {
            schema_version: EngineChangeTag,
            lane: self.lane,
            config_file: self.config_file.display().to_string(),
            gates: self.lines.clone(),
            gates_change: self.before.as_deref().unwrap_or_default() != self.after,
            records: records.collect(),
            notes: self.notes.clone(),
            written: false,
        }
    }
}

/// Gone again when it is dropped.
struct Room(PathBuf);

impl Drop for Room {
    fn drop(&mut self) {
        clear(&self.0);
    }
}

impl Harness {
    /// Looks at what is installed and says what opening the lane would write. It starts the program once, confined and
    /// without a network, to ask what it is.
    pub fn engine_offer(
        &self,
        lane: Lane,
        ask: &EngineAsk,
        stop: &StopToken,
    ) -> Result<EngineOffer, EngineError> {
        let not_by_config = |why| Err(EngineError::NotByConfig { lane, why });
        match lane.traits().gating {
            Gating::Open => return not_by_config("has no gate"),
            Gating::Environment => {
                return not_by_config("is opened by the environment alone, at every stage");
            }
            Gating::EnvironmentOrConfig if !lane.traits().is_built_in => {
                return not_by_config("is not in this build");
            }
            Gating::EnvironmentOrConfig => {}
        }
        let gate = GateConfig {
            allow: true,
            stage: Some(ask.stage.unwrap_or(Stage::COPIED_REPOSITORY)),
        };
        let mut offer = self.gate_offer(lane, Some(gate))?;
        if let ProgramSource::Installed(_) = lane.traits().program {
            self.offer_records(&mut offer, ask, stop)?;
        }
        Ok(offer)
    }

    /// What closing the lane would write. Records stay: without a gate they let nothing in.
    pub fn engine_withdrawal(&self, lane: Lane) -> Result<EngineOffer, EngineError> {
        if lane.traits().gating != Gating::EnvironmentOrConfig {
            let why = "is not opened by the config";
            return Err(EngineError::NotByConfig { lane, why });
        }
        let mut offer = self.gate_offer(lane, None)?;
        let set = lane.gate().filter(|name| self.env.get(name).is_some());
        offer.notes.extend(set.map(|name| {
            format!("{name} is set in the environment, which wins over the config: unset it too")
        }));
        Ok(offer)
    }

    fn gate_offer(&self, lane: Lane, gate: Option<GateConfig>) -> Result<EngineOffer, EngineError> {
        let path = self.config.dir.join(CONFIG_FILE);
        let before = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(EngineError::File { path, source }),
        };
        let wanted: BTreeMap<String, GateConfig> = gate
            .map(|gate| (lane.as_str().to_owned(), gate))
            .into_iter()
            .collect();
        let lines = gate_lines(&wanted);
        let after = match (before.as_deref(), gate) {
            (None, None) => String::new(),
            (text, _) => with_gate(text.unwrap_or_default(), lane, gate).map_err(|source| {
                EngineError::Gates {
                    path: path.clone(),
                    lines: lines.clone(),
                    source,
                }
            })?,
        };
        Ok(EngineOffer {
            lane,
            config_file: path,
            before,
            after,
            lines,
            records: Vec::new(),
            notes: Vec::new(),
        })
    }

    fn offer_records(
        &self,
        offer: &mut EngineOffer,
        ask: &EngineAsk,
        stop: &StopToken,
    ) -> Result<(), EngineError> {
        let lane = offer.lane;
        let found = installed::find(&self.env, lane).map_err(unusable)?;
        let program = found.program.display().to_string();
        let unread = |source| EngineError::File {
            path: found.program.clone(),
            source,
        };
        let file = ProgramFile::at(&found.program);
        let file = file.ok_or_else(|| unread(io::ErrorKind::NotFound.into()))?;
        let seen = file
            .seen()
            .ok_or_else(|| unread(io::ErrorKind::InvalidInput.into()))?;
        if seen.is_temporary {
            return Err(EngineError::Program(
                format!(
                    "`{program}` lies under a temporary directory, where no program is admitted"
                ),
                "install it elsewhere".to_owned(),
            ));
        }
        let beside = ProgramsBeside::of(&found).map_err(unread)?;
        let answer = self
            .ask_version(&found, stop)
            .map_err(|why| EngineError::Unasked {
                program: program.clone(),
                why,
            })?;
        if !answer.contains(lane.traits().identity_word) || !file.is_unchanged() {
            return Err(EngineError::OtherProgram {
                lane,
                program,
                answer,
            });
        }
        let package = found.package.as_ref().and_then(Package::read);
        let at = clock::now();
        let installing = package.as_ref().map(Package::installing);
        let source = source_record(lane, package.as_ref(), (&found, ask), at).map_err(unread)?;
        if let Some(source) = &source {
            if source.integrity.is_of_tree() {
                offer.notes.push(format!(
                    "npm left no hash of the registry here, so the digest of the installed tree stands in; --integrity takes what \
                     `npm view {}@{} dist.integrity` prints",
                    source.package, source.version
                ));
            }
        } else {
            offer.notes.push(
                "the program belongs to no package, so no record of its source is made: `cto admit source`".to_owned(),
            );
        }
        let version = match &package {
            Some(package) => package.manifest.version.clone(),
            None => answer.clone(),
        };
        let named = found.interpreter.is_none();
        let binary = BinaryAdmission {
            status: AdmissionStatus::Admitted,
            path: seen.path.parse().unwrap_or_default(),
            version: Note::new(&version),
            build_command: Note::new(&installing.unwrap_or_default()),
            sha256: Some(seen.digest),
            package_sha256: beside.tree.map(|(_, digest)| digest),
            interpreter_sha256: beside.interpreter.map(|file| file.digest),
            identity_check: IdentityCheck {
                command: Note::new(match named {
                    true => "<program> --version",
                    false => "<interpreter> <program> --version",
                }),
                answer: Note::new(&answer),
            },
            approval_source: approved(lane),
            review_trigger: Note::new("before another build"),
            ..BinaryAdmission::template(lane)
        };
        offer.records.extend(source.map(Admission::Source));
        offer.records.push(Admission::Binary(binary));
        Ok(())
    }

    /// Asks the program what it is: in a root of its own, without a network, and with nothing to write but memory.
    fn ask_version(&self, found: &InstalledProgram, stop: &StopToken) -> Result<String, String> {
        let room = self.room("ask").map_err(|e| error_chain(&e))?;
        let chosen = self.sandbox(SandboxAsk::default());
        let chosen = chosen.map_err(|e| error_chain(&e))?;
        let sandbox = RunSandbox::find(self, chosen, &room.0)?;
        if !sandbox.has_mounts() {
            return Err("nothing here can confine it".to_owned());
        }
        let path = search_path(self);
        let mut argv = found.command();
        let viewer = Viewer {
            path: &path,
            words: &argv,
            program: Some(found),
            repository: None,
            id: sandbox.launcher.id_inside(),
            closed_by: match sandbox.expected.changes_user() {
                true => ClosedBy::Kernel,
                false => ClosedBy::Masks,
            },
        };
        let inside =
            Inside::find(self, viewer, &room.0.join("masks")).map_err(|e| e.to_string())?;
        argv.push("--version".to_owned());
        let mut root = inside.root;
        for at in [SCRATCH, "/tmp"] {
            if !root.tmpfs.iter().any(|tmpfs| tmpfs.at == Path::new(at)) {
                root.tmpfs.push(Tmpfs {
                    at: at.into(),
                    bytes: SCRATCH_BYTES,
                    files: SCRATCH_FILES,
                });
            }
        }
        let places = Places {
            workspace: SCRATCH.to_owned(),
            scratch: SCRATCH.to_owned(),
            home: SCRATCH.to_owned(),
        };
        let mut env = base_environment(&places, &path);
        env.insert("TMPDIR".to_owned(), "/tmp".to_owned());
        let request = LaunchRequest {
            argv: argv.iter().map(Into::into).collect(),
            env: env.into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
            cwd: SCRATCH.into(),
            stdin: cto_sandbox::Stdin::Closed,
            binds: Vec::new(),
            overlay: None,
            limits: Limits {
                wall: ANSWER_WALL,
                output_bytes: ANSWER_BYTES_MAX,
                cpu_seconds: None,
                file_bytes: None,
                open_files: None,
                processes: None,
            },
            network: Network::None,
            grace: Duration::from_secs(1),
            root: Root::Built(root),
            tree: TreeLimits::default(),
            run_as: None,
            recorder: Recorder::Off,
            endpoint: None,
        };
        let mut said = Vec::new();
        let launched = sandbox.launcher.launch(&request, stop, &mut |message, _| {
            if let SandboxMessage::Output(_, bytes) = message {
                said.extend_from_slice(bytes);
            }
        });
        let text = String::from_utf8_lossy(&said);
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = shorten(lines.clone().next().unwrap_or_default(), ANSWER_CHARS);
        // What a program prints where it breaks begins with where; why comes later.
        let why = lines.find(|line| line.contains("Error") || line.contains("error"));
        let why = why.map_or_else(|| first.clone(), |why| shorten(why, ANSWER_CHARS));
        match launched.map_err(|e| error_chain(&e))?.end {
            End::Exited(0) if !first.is_empty() => Ok(first),
            End::Exited(0) => Err("it printed nothing".to_owned()),
            End::Exited(code) => Err(format!("it ended with code {code}: {why}")),
            End::Signaled(_) | End::NotStarted => Err("it did not end by itself".to_owned()),
        }
    }

    /// Writes what was offered: the records first, so that a gate never opens without them.
    pub fn change_engine(
        &self,
        offer: &EngineOffer,
        replace: bool,
    ) -> Result<EngineChangeOutput, EngineError> {
        let mut output = offer.shown();
        let authority = self.ledger().authority();
        let book = authority
            .map_err(|e| EngineError::Ledger(Box::new(e)))?
            .admissions;
        for shown in &mut output.records {
            shown.path = Some(self.take_in(shown, &book, replace)?);
        }
        if output.gates_change {
            replace_file(&offer.config_file, offer.before.as_deref(), &offer.after)?;
        }
        output.written = true;
        Ok(output)
    }
}

impl Harness {
    /// Takes one record into the config directory, and says where it lies.
    fn take_in(
        &self,
        record: &EngineRecord,
        book: &AdmissionBook,
        replace: bool,
    ) -> Result<String, EngineError> {
        let kept = read_filled_in(record.kind, &record.record)?;
        let taken = admit_unsigned(&self.config.dir, &kept, book, replace)?;
        Ok(taken.path)
    }

    /// A directory of this call's own.
    fn room(&self, what: &str) -> Result<Room, EngineError> {
        let failed = |source| EngineError::File {
            path: self.home.work(),
            source,
        };
        let name = scratch_name(what).map_err(|e| failed(io::Error::other(error_chain(&e))))?;
        let room = Room(self.home.work().join(name));
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&room.0);
        made.map_err(failed)?;
        Ok(room)
    }
}

/// Puts a new text in the place of the one that was read, if that is still what stands there.
fn replace_file(path: &Path, before: Option<&str>, after: &str) -> Result<(), EngineError> {
    let failed = |source| EngineError::File {
        path: path.to_owned(),
        source,
    };
    // Who keeps his settings elsewhere and links to them keeps his link.
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(failed(error)),
    };
    let now = match fs::read_to_string(&real) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    if now.as_deref() != before {
        let path = path.to_owned();
        return Err(EngineError::Changed { path });
    }
    if let Some(directory) = real.parent() {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(directory);
        made.map_err(failed)?;
    }
    crate::transfer::write_file(&real, after.as_bytes())
        .map_err(|error| failed(io::Error::other(error_chain(&error))))
}

fn unusable(fault: Fault) -> EngineError {
    if let Fault::ProgramUnusable {
        lane,
        program,
        problem,
    } = fault
    {
        return EngineError::Program(
            format!("`{program}` can't be used: {problem}"),
            remedy(lane, &problem),
        );
    }
    let blocker = verdicts::fault(Step::Eligibility, &fault);
    EngineError::Program(blocker.message, blocker.hint)
}

fn approved(lane: Lane) -> Note {
    Note::new(&format!("whoever ran `cto engines allow {lane}` here"))
}

/// The package that a program is published in, as it is installed.
struct Package {
    place: NodePackage,
    manifest: PackageManifest,
    integrity: Option<Integrity>,
    installed_at: Option<Utc>,
}

impl Package {
    fn read(place: &NodePackage) -> Option<Self> {
        let path = place.root.join("package.json");
        let manifest = manifest(&read_capped(&path)?)?;
        let lock = read_capped(&place.top.join(".package-lock.json"));
        let integrity = lock.and_then(|lock| locked_integrity(&lock, place, &manifest.version));
        let changed = fs::metadata(&path).map(|meta| meta.ctime());
        Some(Self {
            integrity: integrity.and_then(|text| text.parse().ok()),
            installed_at: changed.ok().and_then(at_second),
            place: place.clone(),
            manifest,
        })
    }

    fn installing(&self) -> String {
        let (name, version) = (&self.manifest.name, &self.manifest.version);
        format!("npm install {name}@{version}")
    }
}

fn at_second(second: i64) -> Option<Utc> {
    jiff::Timestamp::from_second(second).ok().map(Utc::new)
}

fn read_capped(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(MANIFEST_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The record of the source; none for a program that belongs to no package.
fn source_record(
    lane: Lane,
    package: Option<&Package>,
    (found, ask): (&InstalledProgram, &EngineAsk),
    at: Utc,
) -> io::Result<Option<SourceAdmission>> {
    let Some(package) = package else {
        return Ok(None);
    };
    let given = ask.integrity.clone();
    let (integrity, reference) = match given.or_else(|| package.integrity.clone()) {
        Some(hash) if ask.integrity.is_some() => (
            hash,
            "what the registry publishes, as it was looked up by a person",
        ),
        Some(hash) => (
            hash,
            "what the registry published, as npm's lock file of the installation has it",
        ),
        None => {
            let tree = found.tree.as_ref().unwrap_or(&package.place.root);
            let digest = tree_digest(tree)?;
            (
                Integrity::of_tree(&digest),
                "none of a registry: the digest of the installed tree stands in",
            )
        }
    };
    let licence = package.manifest.licence.as_deref().unwrap_or("nothing");
    let version: Option<ExactVersion> = package.manifest.version.parse().ok();
    Ok(Some(SourceAdmission {
        status: AdmissionStatus::Admitted,
        kind: SourceKind::Registry,
        registry: Some(Registry::Npm),
        package: Note::new(&package.manifest.name),
        version: version.unwrap_or_default(),
        integrity,
        licence_note: Note::new(&format!(
            "unresolved: package.json says {licence}, and nobody read it"
        )),
        retrieved_at: RecordDate::of(package.installed_at.unwrap_or(at)),
        retrieval_command: Note::new(&package.installing()),
        integrity_reference: Note::new(reference),
        allowed_execution_modes: [ExecutionMode::None, ExecutionMode::CopiedFixture].into(),
        protected_source_boundary: Note::new("the installed package is never written by a run"),
        approval_source: approved(lane),
        review_trigger: Note::new("before another version"),
        ..SourceAdmission::template(lane)
    }))
}
