//! The site of one row: home, config with records, a model, the double, and the run on it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use cto_contract::event::EventType;
use cto_contract::ids::to_hex;
use cto_contract::model_script::FaultScope;
use cto_contract::trust::TrustedKey;
use cto_contract::words::{Lane, Stage};
use cto_egress::{ScriptedModel, ScriptedOptions};
use cto_runner::{Catalog, Environment, Harness, OpenOptions, RunRequest, SandboxAsk, Task};
use cto_sandbox::StopToken;
use serde_json::{Value, json};

use super::Options;
use super::login::Mint;
use super::rows::{Admission, Endpoint, Gates, Login, MODEL, PROVIDER, Program, Row, Way};
use super::script::model_script;
use crate::doubles;
use crate::failures::site::{SiteError, private, put};
use crate::qwen_loop;

const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
/// The variable that holds the key of the model, for the forwarder alone.
const KEY_VARIABLE: &str = "CTO_PROVING_MODEL_KEY";

/// What is there to be judged.
pub(super) struct Seen {
    pub(super) pack: PathBuf,
    pub(super) trusted: Vec<TrustedKey>,
    /// Texts that may stand in no file of the pack.
    pub(super) hidden: Vec<String>,
}

/// Everything that a row needs, made.
pub(super) struct CaseSite {
    harness: Harness,
    request: RunRequest,
    hidden: Vec<String>,
    /// The file of the program, where another one takes its place on the way.
    replaced: Option<PathBuf>,
    /// Serves until the row is over.
    _model: ScriptedModel,
}

impl CaseSite {
    pub(super) fn make(row: &Row, directory: &Path, options: &Options) -> Result<Self, SiteError> {
        let place = directory.join(row.name);
        for name in ["", "config"] {
            private(&place.join(name))?;
        }
        let key = random_text("key")?;
        let mint = Mint::of(row, random_text("token")?);
        let model = start_model(row, &place, &mint)?;
        let base_url = match row.endpoint {
            Endpoint::Scripted => Some(match row.scope {
                FaultScope::Every => model.base_url(row.fault),
                FaultScope::AtWork => model.base_url_at_work(row.fault),
            }),
            Endpoint::Unset => None,
            Endpoint::Dead => Some(dead_address(&place)?),
        };
        write_records(row, &place.join("config"))?;
        let provider = match mint.lay_out(&place)? {
            None => format!("{PROVIDER}: {{key_env: {KEY_VARIABLE}}}"),
            Some(program) => format!(
                "{}: {{credential_command: [sh, '{}']}}",
                row.asked.0,
                program.display()
            ),
        };
        let settings = format!("schema: cto.harness/v1\nproviders:\n  {provider}\n");
        put(&place.join("config/harness.yaml"), &settings, 0o600)?;
        let env = environment(row, &place, options, (&key, base_url.as_deref()));
        let env = match row.way {
            Way::Run => env,
            Way::QwenLoop => qwen_loop::environment(&env),
        };
        let harness = Harness::open(OpenOptions {
            home: place.join("home"),
            config: place.join("config"),
            env,
            launcher: options.launcher.clone(),
        })
        .map_err(Box::new)?;
        let request = match row.way {
            Way::QwenLoop => RunRequest {
                conformance: true,
                ..qwen_loop::request()?
            },
            Way::Run => RunRequest {
                task: Task::Case(Catalog { extra: None }.find(qwen_loop::CASE)?),
                lane: Lane::Case,
                argv: Vec::new(),
                stage: Some(Stage::FIXTURE),
                timeout_seconds: Some(row.timeout_seconds),
                cheat: None,
                parent: None,
                conformance: true,
                sandbox: SandboxAsk::default(),
                approval: Default::default(),
            },
        };
        let address = |url: &String| {
            let rest = url.strip_prefix("http://").unwrap_or(url);
            rest.split('/').next().unwrap_or(rest).to_owned()
        };
        let secrets = base_url.iter().map(address).chain([key]);
        let secrets = secrets.chain([mint.word()]);
        Ok(Self {
            harness,
            request,
            hidden: secrets.collect(),
            replaced: lay_out_own_program(row, &place, options)?,
            _model: model,
        })
    }

    pub(super) fn run(self, stop: &StopToken) -> Result<Seen, SiteError> {
        let mut replaced = Ok(());
        let result = self.harness.run(&self.request, stop, &mut |event| {
            if let (Some(path), EventType::PlanUpdated) = (&self.replaced, event.kind.event_type())
            {
                replaced = take_the_place_of(path);
            }
        });
        let result = result.map_err(Box::new)?;
        replaced?;
        Ok(Seen {
            pack: result.pack,
            trusted: self.harness.config.trusted.clone(),
            hidden: self.hidden,
        })
    }
}

fn start_model(row: &Row, place: &Path, mint: &Mint) -> Result<ScriptedModel, SiteError> {
    let options = ScriptedOptions {
        script: model_script(row.script),
        fault: row.fault,
        scope: row.scope,
        record: None,
    };
    let started = ScriptedModel::start_refusing(0, options, mint.refused());
    started.map_err(|source| SiteError::Make {
        path: place.join("model"),
        source,
    })
}

/// A file of the row's own in the place of the program, where it needs one.
fn lay_out_own_program(
    row: &Row,
    place: &Path,
    options: &Options,
) -> Result<Option<PathBuf>, SiteError> {
    let path = program_path(row, place);
    match row.program {
        Program::NotExecutable => put(&path, "#!/bin/sh\n", 0o600).map(|()| None),
        Program::Replaced => match fs::copy(&options.program, &path) {
            Ok(_) => Ok(Some(path)),
            Err(source) => Err(SiteError::Make { path, source }),
        },
        Program::Double(_) | Program::Absent | Program::ShellFunction => Ok(None),
    }
}

/// Puts another program there, as an installer does.
fn take_the_place_of(path: &Path) -> Result<(), SiteError> {
    let other = path.with_extension("new");
    put(
        &other,
        "#!/bin/sh\necho 'Usage: ca <command> [options]'\n",
        0o700,
    )?;
    fs::rename(&other, path).map_err(|source| SiteError::Make {
        path: path.to_owned(),
        source,
    })
}

fn program_path(row: &Row, place: &Path) -> PathBuf {
    match double_name(row) {
        Some(name) => directory_of(place).join(name),
        None => place.join(doubles::file_name(Lane::Case, None)),
    }
}

/// An address where nobody listens any more.
fn dead_address(place: &Path) -> Result<String, SiteError> {
    let bound = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let bound = bound.map_err(|source| SiteError::Make {
        path: place.join("dead"),
        source,
    })?;
    Ok(format!("http://{bound}/v1"))
}

fn environment(
    row: &Row,
    place: &Path,
    options: &Options,
    (key, base_url): (&str, Option<&str>),
) -> Environment {
    let path = options.env.get("PATH").unwrap_or(PATH_DEFAULT);
    let program = program_path(row, place).display().to_string();
    let (allowed, stage) = match row.gates {
        Gates::Open => (Some("1"), Some("2")),
        Gates::Closed => (None, Some("2")),
        Gates::ByAnotherWord => (Some("true"), Some("2")),
        Gates::WithoutStage => (Some("1"), None),
        Gates::AtAnotherStage => (Some("1"), Some("3")),
    };
    let is_function = matches!(row.program, Program::ShellFunction);
    let lane = Lane::Case;
    let named = [
        (Some("PATH".to_owned()), Some(path.to_owned())),
        (Some("HOME".to_owned()), Some(place.display().to_string())),
        (lane.gate(), allowed.map(str::to_owned)),
        (lane.stage_gate(), stage.map(str::to_owned)),
        (
            Some("CTO_HARNESS_CASE_BIN".to_owned()),
            (!is_function).then_some(program),
        ),
        (
            Some("BASH_FUNC_ca%%".to_owned()),
            is_function.then(|| "() { command true; }".to_owned()),
        ),
        (
            lane.auth_bridge(),
            (row.login != Login::Variable).then(|| "1".to_owned()),
        ),
        (lane.model_provider(), Some(row.asked.0.to_owned())),
        (lane.model(), Some(row.asked.1.to_owned())),
        (
            Some("CTO_HARNESS_CASE_MODEL_ADMISSION_FILE".to_owned()),
            (row.admission != Admission::Absent)
                .then(|| record_file(&place.join("config")).display().to_string()),
        ),
        (lane.base_url(), base_url.map(str::to_owned)),
        (Some(KEY_VARIABLE.to_owned()), Some(key.to_owned())),
    ];
    let set = named
        .into_iter()
        .filter_map(|(name, value)| name.zip(value));
    Environment::new(set)
}

/// Where the doubles of a validation lie, beside the sites of its rows.
fn directory_of(place: &Path) -> PathBuf {
    place.with_file_name("doubles")
}

/// Lays out this program under the name of every double that the rows need: one copy with several names, all made before
/// the first run, because a new name is a change of the file.
pub(super) fn lay_out_doubles(
    rows: &[&'static Row],
    directory: &Path,
    program: &Path,
) -> io::Result<()> {
    let at = directory.join("doubles");
    fs::create_dir_all(&at)?;
    let copy = at.join("program");
    fs::copy(program, &copy)?;
    let names: BTreeSet<String> = rows.iter().filter_map(|row| double_name(row)).collect();
    for name in names {
        fs::hard_link(&copy, at.join(name))?;
    }
    Ok(())
}

fn double_name(row: &Row) -> Option<String> {
    let Program::Double(quirks) = row.program else {
        return None;
    };
    let words: Vec<&str> = quirks.iter().map(|quirk| quirk.as_str()).collect();
    let words = (!words.is_empty()).then(|| words.join("."));
    Some(doubles::file_name(Lane::Case, words.as_deref()))
}

fn record_file(config: &Path) -> PathBuf {
    config.join("model-admission.json")
}

/// The record of the model as the row wants it, and a decision for the pair that is asked for.
fn write_records(row: &Row, config: &Path) -> Result<(), SiteError> {
    let (provider, model) = match row.admission {
        Admission::OfAsked => row.asked,
        Admission::OfAnother => (PROVIDER, "another-model"),
        Admission::Admitted | Admission::Absent | Admission::Invalid | Admission::Undecided => {
            (PROVIDER, MODEL)
        }
    };
    let mut record = json!({
        "status": "admitted", "provider": provider, "model": model,
        "credential_source_class": "variable of the operator", "allowed_network_class": "loopback of this machine",
        "approval_source": "a validation", "admission_timestamp": "2026-06-01T00:00:00Z",
        "review_trigger": "never: it is made anew for each validation",
    });
    if row.admission == Admission::Invalid {
        record["status"] = json!("perhaps");
    }
    if row.admission != Admission::Absent {
        put_json(&record_file(config), &record)?;
    }
    if row.admission == Admission::Undecided {
        return Ok(());
    }
    let is_local = row.asked.0 == PROVIDER;
    let (status, class) = match is_local {
        true => ("local_provider_required", "local_case_compatible"),
        false => ("external_provider_approved", "external_openai_codex"),
    };
    let decision = json!({
        "lane": "case", "decision_status": status, "provider_class": class,
        "provider": row.asked.0, "model": row.asked.1,
        "approval_source": "a validation", "credential_source_class": "variable of the operator",
        "allowed_network_class": "loopback of this machine", "review_trigger": "never",
        "evidence_sources": [], "effect": "the rows of this validation may run",
    });
    put_json(&config.join("provider-decision.json"), &decision)
}

fn put_json(path: &Path, value: &Value) -> Result<(), SiteError> {
    put(path, &format!("{value:#}\n"), 0o600)
}

fn random_text(what: &str) -> Result<String, SiteError> {
    let random = cto_runner::random::<16>().map_err(|e| SiteError::Random(e.into()))?;
    Ok(format!("{what}-{}", to_hex(&random)))
}
