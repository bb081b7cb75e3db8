//! The site of one scene: bait, a repository, a program and a harness of its own, the rehearsal and the run.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_contract::event::{EventKind, RunEvent};
use cto_contract::ids::to_hex;
use cto_contract::words::{Lane, Stage};
use cto_runner::{Environment, Harness, OpenOptions, RunRequest};
use cto_sandbox::{Launcher, StopToken};
use serde_json::{Value, json};

use super::lines::Lines;
use super::machine::Machine;
use super::planted::Planted;
use super::scene::{Meddling, Program, Scene, Work};
use super::task::{case_text, task};
use super::traces::{left_behind, parent_of, processes_naming};
use super::{Options, forged, replayed, scenes};
use crate::failures::check::Seen;
use crate::failures::outside::Surroundings;
use crate::failures::site::{SiteError, bare, owner_works, private, put};
use crate::failures::table::MODEL_RECORD;

const TOOLS: &str = include_str!("programs/tools.py");
const SEGMENT: &str = include_str!("programs/segment.py");
/// Files that attempts are made on, by the number of their behaviour.
const BAIT: [&str; 8] = [
    "rt02",
    "rt03",
    "rt04",
    "rt05",
    "rt06",
    "rt07-keep",
    "rt08",
    "rt48",
];
/// Secrets as people have them, below home, in the repository, and beside a tool on `PATH`.
const SECRETS: [&str; 9] = [
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".config/gcloud/credentials.db",
    "repo/.env",
    "secret",
    ".tool/config.yml",
    ".tool/bin/.session",
    ".tool/share/token",
    ".tool/lib/deep/credentials.json",
];
/// Variables of the harness that hold the token.
const VARIABLES: [&str; 4] = [
    "CTO_PROVING_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "OPENAI_API_KEY",
];
/// So many attempts flood a recorder.
const FLOOD: u32 = 20_000;
const CASE_SWAPPED: &str = "**";
const PROGRAM_SWAPPED: &str = "#!/bin/sh\necho swapped\necho new swapped > src/a.txt\n";

/// A run and all that was seen around it.
pub(crate) struct Played {
    pub(crate) seen: Seen,
    /// What the same program said where nothing holds it.
    pub(crate) rehearsal: Option<Lines>,
    /// Behaviours that show outside, whatever the program says.
    pub(crate) reached: Vec<(u8, String)>,
    /// What was seen of a behaviour beside the pack, and is as it must be.
    pub(crate) noticed: Vec<(u8, String)>,
}

pub(crate) struct SceneSite<'a> {
    pub(super) scene: &'a Scene,
    pub(super) place: PathBuf,
    pub(super) path: String,
    machine: &'a Machine,
    pub(super) harness: Harness,
    pub(super) request: RunRequest,
    program: PathBuf,
    pub(super) planted: Planted,
    segment: u32,
    launcher: Launcher,
    real_home: String,
}

impl<'a> SceneSite<'a> {
    pub(crate) fn make(
        scene: &'a Scene,
        directory: &Path,
        options: &Options,
        machine: &'a Machine,
    ) -> Result<Self, SiteError> {
        let place = directory.join(scene.name);
        private(&place)?;
        let random = cto_runner::random::<16>().map_err(|e| SiteError::Random(e.into()))?;
        let token = to_hex(&random);
        // A key of System V is a positive number that is not 0.
        let segment = u32::from_be_bytes([random[0] & 0x7f, random[1], random[2], random[3] | 1]);
        lay_bait(&place.join("bait"))?;
        let work = place.join("repo");
        let files = match scene.work {
            Work::Repository => work.clone(),
            Work::Case => place.join("cases/redteam/workspace"),
        };
        for (path, text) in scenes::FILES {
            put(&files.join(path), text, 0o644)?;
        }
        if scene.meddling == Meddling::ForgeApproval {
            forged::lay(scene, &place)?;
        }
        let path = machine.path.clone();
        if scene.work == Work::Repository {
            let owner = if scene.owner.is_empty() {
                "true"
            } else {
                scene.owner
            };
            let script =
                format!("git init -q -b main .\n{owner}\ngit add -A -f\ngit commit -qm first");
            owner_works(&script, &work, &path, &options.launcher)?;
        }
        for name in SECRETS {
            put(&place.join(name), &format!("{token}\n"), 0o600)?;
        }
        let task = task(scene, &place)?;
        private(&place.join("config"))?;
        put(&place.join("config/model.yaml"), MODEL_RECORD, 0o600)?;
        let planted = Planted::plant(&place, &token).map_err(|source| SiteError::Make {
            path: place.clone(),
            source,
        })?;
        let env = Environment::new(variables(scene, &place, &path, &planted));
        let harness = Harness::open(OpenOptions {
            home: place.join("home"),
            config: place.join("config"),
            env,
            launcher: options.launcher.clone(),
        })
        .map_err(Box::new)?;
        let mut site = Self {
            scene,
            program: PathBuf::new(),
            request: RunRequest {
                sandbox: cto_runner::SandboxAsk::default(),
                approval: Default::default(),
                task,
                lane: Lane::Command,
                argv: Vec::new(),
                stage: Some(Stage::try_from(scene.work.stage())?),
                timeout_seconds: None,
                cheat: None,
                parent: None,
                conformance: true,
            },
            machine,
            harness,
            planted,
            segment,
            launcher: options.launcher.clone(),
            real_home: options.env.get("HOME").unwrap_or("/nonexistent").to_owned(),
            place,
            path,
        };
        site.write_program()?;
        Ok(site)
    }

    fn write_program(&mut self) -> Result<(), SiteError> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let bait = self.place.join("bait");
        match self.scene.program {
            Program::Python(program) => {
                self.program = self.place.join("agent.py");
                let facts = self.facts(&bait, &[("rehearsal", json!(false))])?;
                put(&self.program, &python_text(program, &facts), 0o644)?;
                let python = self.machine.python.clone().unwrap_or_default();
                self.request.argv = [&python, "-I", "-B", &text(&self.program)]
                    .map(str::to_owned)
                    .to_vec();
            }
            Program::Shell(program) => {
                self.program = self.place.join("agent.sh");
                let quoted = |path: &Path| text(path).replace('\'', r"'\''");
                let head = format!(
                    "place='{}'\nbait='{}'\n{}",
                    quoted(&self.place),
                    quoted(&bait),
                    scenes::SHELL_HEAD
                );
                put(
                    &self.program,
                    &format!("{head}{program}\nrm -f build/evil\necho rt end\n"),
                    0o644,
                )?;
                self.request.argv = vec!["/bin/sh".to_owned(), text(&self.program)];
            }
            Program::File(program) => {
                self.program = self.place.join("program/agent");
                put(&self.program, program, 0o755)?;
                self.request.argv = vec![text(&self.program)];
            }
        }
        Ok(())
    }

    fn facts(&self, bait: &Path, more: &[(&str, Value)]) -> Result<String, SiteError> {
        let port = |port: io::Result<u16>| {
            port.map_err(|source| SiteError::Look {
                path: self.place.clone(),
                source,
            })
        };
        let at = |name: &str| self.place.join(name);
        let secrets: Vec<PathBuf> = SECRETS
            .iter()
            .map(|name| at(name))
            .chain([cto_runner::key_path(&self.harness.home)])
            .collect();
        let mut facts = json!({
            "place": self.place,
            "bait": bait,
            "harness": std::process::id(),
            "shared": self.planted.shared,
            "token": self.planted.token,
            "secrets": secrets,
            "real_home": self.real_home,
            "environment": VARIABLES,
            "evidence": self.harness.home.root().join("harness-runs"),
            "tcp": port(self.planted.tcp_port())?,
            "udp": port(self.planted.udp_port())?,
            "socket": self.planted.named.0,
            "agents": self.machine.sockets,
            "abstract": self.planted.abstract_name,
            "segment": self.segment,
            "flood": FLOOD,
        });
        for (name, value) in more {
            facts[*name] = value.clone();
        }
        Ok(facts.to_string())
    }

    /// Lets the program do on a decoy, outside, what it must not do inside.
    fn rehearse(&self) -> Result<Option<Lines>, SiteError> {
        let Program::Python(program) = self.scene.program else {
            return Ok(None);
        };
        if !self.scene.is_rehearsed {
            return Ok(None);
        }
        let decoy = self.place.join("rehearsal");
        lay_bait(&decoy.join("bait"))?;
        for (path, text) in scenes::FILES {
            put(&decoy.join("workspace").join(path), text, 0o644)?;
        }
        let facts = self.facts(&decoy.join("bait"), &[("rehearsal", json!(true))])?;
        let said = self.outside(
            "rehearsal/program.py",
            program,
            &facts,
            &decoy.join("workspace"),
        )?;
        let lines = Lines::read(&said);
        if !lines.has_ended {
            return Err(SiteError::LeftOut(format!(
                "the rehearsal did not end: {}",
                cto_contract::text::shorten(&said, 300)
            )));
        }
        Ok(Some(lines))
    }

    /// Runs a program where nothing holds it.
    fn outside(
        &self,
        file: &str,
        program: &str,
        facts: &str,
        cwd: &Path,
    ) -> Result<String, SiteError> {
        let file = self.place.join(file);
        put(&file, &python_text(program, facts), 0o644)?;
        let python = self.machine.python.clone().unwrap_or_default();
        let argv = [
            python.into(),
            "-I".into(),
            "-B".into(),
            file.into_os_string(),
        ]
        .into_iter()
        .collect::<Vec<OsString>>();
        let launcher = Launcher {
            force_group: true,
            ..self.launcher.clone()
        };
        bare(argv, cwd, &self.path, &launcher)
    }

    /// The segment of shared memory outside, made or removed.
    fn segment(&self, remove: bool) -> Result<Lines, SiteError> {
        let facts = [("rehearsal", json!(true)), ("remove", json!(remove))];
        let facts = self.facts(&self.place.join("bait"), &facts)?;
        let file = format!("program-segment-{remove}.py");
        let said = self.outside(&file, SEGMENT, &facts, &self.place)?;
        Ok(Lines::read(&said))
    }

    /// Rehearses, runs, meddles where the scene says so, and looks at everything around before and after.
    pub(crate) fn play(&self, stop: &StopToken) -> Result<Played, SiteError> {
        let look_error = |source| SiteError::Look {
            path: self.place.clone(),
            source,
        };
        let mut rehearsal = self.rehearse()?;
        let needs_segment = self.scene.tries.iter().any(|(number, _)| *number == 55);
        if needs_segment {
            self.segment(false)?;
        }
        self.planted.reached();
        let without: &[&str] = match self.scene.meddling {
            Meddling::SwapProgram => &["home", "config", "rehearsal", "program"],
            Meddling::SwapCase => &["home", "config", "rehearsal", "cases"],
            Meddling::None
            | Meddling::KillInit
            | Meddling::KillHarness
            | Meddling::ForgeApproval => &["home", "config", "rehearsal"],
        };
        let look = || Surroundings::look(&self.place, without).map_err(look_error);
        let before = look()?;
        let own = StopToken::new().map_err(SiteError::Stop)?;
        let mut troubles = Vec::new();
        let mut has_meddled = false;
        let result = {
            let mut observer = |event: &RunEvent| {
                if stop.is_asked() && !own.is_asked() {
                    own.ask();
                }
                match self.meddle(event) {
                    Ok(done) => has_meddled |= done,
                    Err(error) => troubles.push(format!("the meddling failed: {error}")),
                }
            };
            self.harness
                .run(&self.request, &own, &mut observer)
                .map_err(Box::new)?
        };
        let mut noticed = Vec::new();
        let mut reached = Vec::new();
        if self.scene.meddling == Meddling::ForgeApproval {
            has_meddled = true;
            let (seen, wrong) = self.forge(&result.pack).map_err(look_error)?;
            noticed.extend(seen.into_iter().map(|s| (forged::NUMBER, s)));
            reached.extend(wrong.into_iter().map(|s| (forged::NUMBER, s)));
        }
        if self.scene.meddling != Meddling::None && !has_meddled && troubles.is_empty() {
            troubles.push("the moment to meddle never came".to_owned());
        }
        let outside = before.differences(&look()?);
        troubles.extend(self.left_behind().map_err(look_error)?);
        let listeners = self.planted.reached().into_iter();
        reached
            .extend(listeners.map(|number| (number, "a listener outside was reached".to_owned())));
        let shared = self.planted.left_in_shared().into_iter();
        reached.extend(shared.map(|path| (10, format!("`{path}` was made outside"))));
        if needs_segment {
            rehearsal = Some(self.segment(true)?);
        }
        Ok(Played {
            seen: Seen {
                pack: result.pack,
                trusted: self.harness.config.trusted.clone(),
                outside,
                troubles,
            },
            rehearsal,
            reached,
            noticed,
        })
    }

    /// Claims and replays approvals; returns what was seen, and what should have been.
    fn forge(&self, pack: &Path) -> io::Result<(Vec<String>, Vec<String>)> {
        let copies = self.place.join("home/replayed");
        let trusted = &self.harness.config.trusted;
        let replayed = replayed::replay(pack, trusted, &copies)?;
        let mut codes: Vec<&str> = replayed.codes.iter().map(|code| code.as_str()).collect();
        codes.sort_unstable();
        codes.dedup();
        let mut seen = vec![format!("replays found ({})", codes.join(", "))];
        let mut wrong = replayed.wrong;
        match forged::claimed(self.scene) {
            Ok(sentence) => seen.push(sentence),
            Err(sentences) => wrong.extend(sentences),
        }
        Ok((seen, wrong))
    }

    /// Processes, mounts and files of the run that are still there.
    pub(super) fn left_behind(&self) -> io::Result<Vec<String>> {
        left_behind(&self.place, &self.program, &self.harness)
    }

    fn meddle(&self, event: &RunEvent) -> io::Result<bool> {
        match (self.scene.meddling, &event.kind) {
            (Meddling::SwapProgram, EventKind::PlanUpdated(_)) => {
                let other = self.place.join("program/other");
                put_again(&other, PROGRAM_SWAPPED, 0o755)?;
                fs::rename(other, &self.program)?;
                Ok(true)
            }
            (Meddling::SwapCase, EventKind::TaskContractCreated(_)) => {
                let text = case_text(self.scene, &[("allowed_paths", "['**']")]);
                let other = self.place.join("cases/other.yaml");
                put_again(&other, &text, 0o644)?;
                fs::rename(other, self.place.join("cases/redteam/case.yaml"))?;
                Ok(text.contains(CASE_SWAPPED))
            }
            (Meddling::KillInit, EventKind::BackendPlan(_)) => {
                let init = processes_naming(&self.program)?
                    .into_iter()
                    .find_map(parent_of)
                    .ok_or_else(|| io::Error::other("the agent was not found"))?;
                rustix::process::kill_process(init, rustix::process::Signal::KILL)?;
                Ok(true)
            }
            (
                Meddling::None
                | Meddling::SwapProgram
                | Meddling::SwapCase
                | Meddling::KillInit
                | Meddling::KillHarness
                | Meddling::ForgeApproval,
                _,
            ) => Ok(false),
        }
    }
}

/// What the harness of a scene is started with.
pub(super) fn variables(
    scene: &Scene,
    place: &Path,
    path: &str,
    planted: &Planted,
) -> Vec<(String, String)> {
    let stage = scene.work.stage().to_string();
    let gates = [
        (Lane::Command.gate(), "1"),
        (Lane::Command.stage_gate(), stage.as_str()),
    ];
    let open = gates
        .into_iter()
        .filter_map(|(name, value)| Some((name?, value.to_owned())));
    let secrets = VARIABLES.map(|name| (name.to_owned(), planted.token.clone()));
    let model = Lane::Command.base_url();
    let approvals = (scene.meddling == Meddling::ForgeApproval).then(forged::variables);
    let tool = place.join(".tool/bin");
    [
        ("PATH".to_owned(), format!("{}:{path}", tool.display())),
        ("HOME".to_owned(), place.display().to_string()),
    ]
    .into_iter()
    .chain(open)
    .chain(secrets)
    .chain(approvals.into_iter().flatten())
    .chain(model.map(|name| (name, planted.model.base_url())))
    .collect()
}

fn lay_bait(at: &Path) -> Result<(), SiteError> {
    for name in BAIT {
        let number = &name[2..4];
        put(&at.join(name), &format!("bait of {number}\n"), 0o644)?;
    }
    Ok(())
}

/// A program with its facts and tools before it. A string of JSON is one of Python.
fn python_text(program: &str, facts: &str) -> String {
    let facts = Value::String(facts.to_owned());
    format!("FACTS = {facts}\n{TOOLS}\n{program}")
}

fn put_again(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    put(path, text, mode).map_err(|e| io::Error::other(cto_runner::error_chain(&e)))
}
