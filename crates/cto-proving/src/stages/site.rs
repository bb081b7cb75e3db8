//! The throw-away home of a validation: config with records, cases, repositories, the lane's program and its models.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cto_contract::model_script::{FaultScope, ModelFault};
use cto_contract::words::Lane;
use cto_egress::{ScriptedModel, ScriptedOptions};
use cto_evidence::canonical::hash_reader;
use cto_runner::{Environment, Harness, OpenOptions};
use serde_json::json;

use super::rows::{
    CASE, CASE_WITH_EVENT, CASE_WITHOUT_COMMAND, CONTRACT, CONTRACT_DIRTY_END, CONTRACT_WITH_EVENT,
    CONTRACT_WITH_SETUP, Engine, Row, Work,
};
use super::scripts::{Act, model_script};
use super::{Options, Program};
use crate::case_lane;
use crate::doubles;
use crate::failures::outside::Surroundings;
use crate::failures::site::{SiteError, owner_works, private, put};

const ACTIONS: &str = "[push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]";
const CHECK: &str = "[{run: grep -q new a.txt, must_fail_before: true}]";
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// Everything that the runs of a validation need, made.
pub(super) struct Site {
    pub(super) place: PathBuf,
    lane: Lane,
    path: String,
    program: PathBuf,
    /// The file whose digest a record names.
    file: PathBuf,
    models: BTreeMap<Act, ScriptedModel>,
    pair: (&'static str, &'static str),
}

impl Site {
    pub(super) fn make(directory: &Path, options: &Options) -> Result<Self, SiteError> {
        let place = directory.to_owned();
        let lane = options.lane;
        for name in ["config", "programs", "user"] {
            private(&place.join(name))?;
        }
        let (program, file) = lay_out_program(&place, options)?;
        let pair = match lane == Lane::Case {
            true => (case_lane::PROVIDER, case_lane::MODEL),
            false => ("scripted", "scripted"),
        };
        let path = options.env.get("PATH").unwrap_or(PATH_DEFAULT).to_owned();
        let has_model = lane != Lane::Command;
        let mut models = BTreeMap::new();
        for act in Act::ALL.into_iter().filter(|_| has_model) {
            let script = ScriptedOptions {
                script: model_script(lane, act),
                fault: ModelFault::Ok,
                scope: FaultScope::Every,
                record: None,
            };
            let model = ScriptedModel::start(0, script).map_err(|source| SiteError::Make {
                path: place.join("model"),
                source,
            })?;
            models.insert(act, model);
        }
        let site = Self {
            place,
            lane,
            path,
            program,
            file,
            models,
            pair,
        };
        site.write_config()?;
        site.write_cases()?;
        site.write_repositories(options)?;
        // The home is made by this call alone: no command makes one of its kind.
        Harness::open(OpenOptions {
            home: site.home(),
            config: site.place.join("config"),
            env: Environment::new([]),
            launcher: options.launcher.clone(),
        })
        .map_err(Box::new)?
        .become_validation_home()
        .map_err(|e| SiteError::Home(Box::new(e)))?;
        copy_config(&site.place)?;
        Ok(site)
    }

    pub(super) fn home(&self) -> PathBuf {
        self.place.join("home")
    }

    /// What lies around the runs and must stay as it is.
    pub(super) fn surroundings(&self) -> std::io::Result<Surroundings> {
        Surroundings::look(&self.place, &["home", "user", "config"])
    }

    fn write_config(&self) -> Result<(), SiteError> {
        let (provider, model) = self.pair;
        let providers = match self.lane == Lane::Command {
            true => String::new(),
            false => format!("providers: {{{provider}: {{}}}}\n"),
        };
        let settings = format!("schema: cto.harness/v1\n{providers}");
        let config = self.place.join("config");
        put(&config.join("harness.yaml"), &settings, 0o600)?;
        if self.lane == Lane::Command {
            return Ok(());
        }
        let record = json!({
            "status": "admitted", "provider": provider, "model": model,
            "credential_source_class": "none", "allowed_network_class": "loopback of this machine",
            "approval_source": "a validation", "admission_timestamp": "2026-06-01T00:00:00Z",
            "review_trigger": "never: it is made anew for each validation",
        });
        put(&config.join("model.json"), &record.to_string(), 0o600)?;
        let decision = json!({
            "lane": self.lane, "decision_status": "local_provider_required",
            "provider_class": "local_case_compatible", "provider": provider, "model": model,
            "approval_source": "a validation", "credential_source_class": "none",
            "allowed_network_class": "loopback of this machine", "review_trigger": "never",
            "evidence_sources": [], "effect": "the runs of this validation",
        });
        if self.lane == Lane::Case {
            put(&config.join("decision.json"), &decision.to_string(), 0o600)?;
        }
        self.write_program_records(&config)
    }

    /// Records of source and binary, as a copied repository asks for them.
    fn write_program_records(&self, config: &Path) -> Result<(), SiteError> {
        let made = |source: std::io::Error| SiteError::Make {
            path: self.file.clone(),
            source,
        };
        let real = self.file.canonicalize().map_err(made)?;
        let file = fs::File::open(&real).map_err(made)?;
        let digest = hash_reader(file)
            .map_err(|e| made(std::io::Error::other(e)))?
            .0;
        let source = json!({
            "status": "admitted", "lane": self.lane, "kind": "registry", "registry": "npm",
            "package": "agent", "version": "1.0.0", "integrity": "ab".repeat(32),
            "licence_note": "read", "retrieved_at": "2026-06-01", "retrieval_command": "a validation",
            "integrity_reference": "a validation", "allowed_execution_modes": ["copied-fixture"],
            "protected_source_boundary": "never written", "approval_source": "a validation",
            "review_trigger": "never",
        });
        let word = self.lane.traits().identity_word;
        let asked = match self.lane == Lane::Case {
            true => "--help",
            false => "--version",
        };
        // Not every program says its name; an empty answer is no record.
        let answer = format!("{word} 1.0.0");
        let binary = json!({
            "status": "admitted", "lane": self.lane, "path": real, "version": "1.0.0", "sha256": digest,
            "identity_check": {"command": asked, "answer": answer}, "review_trigger": "never",
        });
        put(&config.join("source.json"), &source.to_string(), 0o600)?;
        put(&config.join("binary.json"), &binary.to_string(), 0o600)
    }

    fn write_cases(&self) -> Result<(), SiteError> {
        let cases = [
            (CASE, format!("verification_commands: {CHECK}\n")),
            (
                CASE_WITHOUT_COMMAND,
                "verification_commands: []\n".to_owned(),
            ),
            (
                CASE_WITH_EVENT,
                format!(
                    "verification_commands: {CHECK}\nevidence_expectations: {{required_events: [sandbox.denied]}}\n"
                ),
            ),
        ];
        for (id, rest) in cases {
            let dir = self.place.join("cases").join(id);
            let head = format!(
                "schema: cto.case/v1\nid: {id}\ntitle: Change a.txt\ninstruction: Write the word new into a.txt.\nallowed_paths: [a.txt]\nforbidden_actions: {ACTIONS}\n"
            );
            put(&dir.join("case.yaml"), &format!("{head}{rest}"), 0o644)?;
            put(&dir.join("workspace/a.txt"), "old\n", 0o644)?;
            put(&dir.join("workspace/b.txt"), "other\n", 0o644)?;
            put(&dir.join("fake/a.txt"), "new\n", 0o644)?;
        }
        Ok(())
    }

    fn write_repositories(&self, options: &Options) -> Result<(), SiteError> {
        for name in ["repository", "dirty-repository", "named-repository"] {
            let repo = self.place.join(name);
            put(&repo.join("a.txt"), "old\n", 0o644)?;
            put(&repo.join("b.txt"), "other\n", 0o644)?;
            // History of its own: what came before must not be taken for the agent's work.
            let script = "git init -q -b main .\ngit add -A\ngit commit -qm first\necho two > c.txt\ngit add -A\ngit commit -qm second";
            owner_works(script, &repo, &self.path, &options.launcher)?;
        }
        let dirty = self.place.join("dirty-repository");
        owner_works("echo mine >> b.txt", &dirty, &self.path, &options.launcher)?;
        let contracts = [
            (CONTRACT, format!("verification_commands: {CHECK}\n")),
            (
                CONTRACT_WITH_SETUP,
                format!("verification_commands: {CHECK}\nsetup_commands: ['echo x >> b.txt']\n"),
            ),
            (
                CONTRACT_DIRTY_END,
                "verification_commands: [{run: 'grep -q new a.txt && echo x >> b.txt', must_fail_before: true}]\n".to_owned(),
            ),
            (
                CONTRACT_WITH_EVENT,
                format!(
                    "verification_commands: {CHECK}\nevidence_expectations: {{required_events: [sandbox.denied]}}\n"
                ),
            ),
        ];
        for (name, rest) in contracts {
            let head = format!(
                "schema: cto.contract/v1\ntask_id: stage-{name}\ntitle: Change a.txt\ninstruction: Write the word new into a.txt.\nrisk_class: copied\nmutation_mode: copied-fixture\nallowed_paths: [a.txt]\nforbidden_actions: {ACTIONS}\n"
            );
            let path = self.place.join("contracts").join(format!("{name}.yaml"));
            put(&path, &format!("{head}{rest}"), 0o644)?;
        }
        Ok(())
    }

    /// The arguments of a row.
    pub(super) fn arguments(&self, row: &Row) -> Vec<String> {
        let at = |name: &str| self.place.join(name).display().to_string();
        let mut args = vec!["run".to_owned()];
        match row.work {
            Work::Case(id) => args.extend([id.to_owned(), "--cases".to_owned(), at("cases")]),
            Work::Repository(contract) => args.extend([
                "--repo".to_owned(),
                at("repository"),
                "--contract".to_owned(),
                at(&format!("contracts/{contract}.yaml")),
            ]),
            Work::DirtyRepository => args.extend([
                "--repo".to_owned(),
                at("dirty-repository"),
                "--contract".to_owned(),
                at(&format!("contracts/{CONTRACT}.yaml")),
            ]),
        }
        if row.engine == Engine::Lane {
            args.extend(["--engine".to_owned(), self.lane.to_string()]);
        }
        let flags = [("--stage", row.flag), ("--timeout", row.timeout)];
        for (flag, value) in flags {
            args.extend(
                value
                    .iter()
                    .flat_map(|v| [flag.to_owned(), (*v).to_owned()]),
            );
        }
        args.extend(["--json".to_owned(), "-q".to_owned()]);
        if row.engine == Engine::Lane && self.lane == Lane::Command {
            let program = match row.has_program {
                true => "/bin/sh".to_owned(),
                false => at("programs/absent"),
            };
            let words = ["--", &program, "-c", row.act.shell()];
            args.extend(words.map(str::to_owned));
        }
        args
    }

    /// The whole environment of a row.
    pub(super) fn environment(&self, row: Option<&Row>) -> BTreeMap<String, String> {
        let at = |name: &str| self.place.join(name).display().to_string();
        let mut env = BTreeMap::from([
            ("PATH".to_owned(), self.path.clone()),
            ("HOME".to_owned(), at("user")),
            ("CTO_HOME".to_owned(), self.home().display().to_string()),
            // A repository that nobody may look at.
            ("SANDCASTLE_REPO".to_owned(), at("named-repository")),
        ]);
        let Some(row) = row else { return env };
        let lane = self.lane;
        let mut set = |name: Option<String>, value: Option<String>| {
            env.extend(name.zip(value));
        };
        set(lane.gate(), row.gate.map(str::to_owned));
        set(lane.stage_gate(), row.stage_gate.map(str::to_owned));
        if lane != Lane::Command {
            let program = match row.has_program {
                true => self.program.display().to_string(),
                false => at("programs/absent"),
            };
            let name = format!("CTO_HARNESS_{}_BIN", lane.as_str().to_ascii_uppercase());
            set(Some(name), Some(program));
            set(lane.model_provider(), Some(self.pair.0.to_owned()));
            set(lane.model(), Some(self.pair.1.to_owned()));
            let model = self.models.get(&row.act);
            // Who hangs does so in the agent's hands: the endpoint itself answers, also to a question before the start.
            set(lane.base_url(), model.map(|m| m.base_url(ModelFault::Ok)));
        }
        env
    }

    /// The config directory of a row.
    pub(super) fn config(&self, row: Option<&Row>) -> PathBuf {
        let name = match row.is_some_and(|row| row.has_floor) {
            true => "floor",
            false => "config",
        };
        self.place.join(name)
    }
}

/// The same config with a floor of free space that no disk has.
fn copy_config(place: &Path) -> Result<(), SiteError> {
    let mut waiting = vec![PathBuf::new()];
    while let Some(below) = waiting.pop() {
        let from = place.join("config").join(&below);
        let look = |source| SiteError::Look {
            path: from.clone(),
            source,
        };
        private(&place.join("floor").join(&below))?;
        for entry in fs::read_dir(&from).map_err(look)? {
            let entry = entry.map_err(look)?;
            let name = below.join(entry.file_name());
            if entry.file_type().map_err(look)?.is_dir() {
                waiting.push(name);
                continue;
            }
            let mut text = fs::read_to_string(entry.path()).map_err(look)?;
            if name == Path::new("harness.yaml") {
                text.push_str("disk_floor_mb: 1000000000000\n");
            }
            put(&place.join("floor").join(&name), &text, 0o600)?;
        }
    }
    Ok(())
}

/// Lays out the lane's program: this one under the name of a double, or nothing where the installed one is asked for.
fn lay_out_program(place: &Path, options: &Options) -> Result<(PathBuf, PathBuf), SiteError> {
    if let Program::Real(found) = &options.program {
        return Ok((found.named.clone(), found.file.clone()));
    }
    let program = place
        .join("programs")
        .join(doubles::file_name(options.lane, None));
    if options.lane != Lane::Command {
        fs::copy(&options.cto, &program).map_err(|source| SiteError::Make {
            path: program.clone(),
            source,
        })?;
    }
    Ok((program.clone(), program))
}
