//! A repository of the operator's, a contract for it, and programs that work on its copy.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::place::{Place, Ran, sh, write};

pub(crate) const ACTIONS: &str = "[push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]";

/// Git as its user has it, whatever the machine's configuration says.
pub(crate) const GIT: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=o GIT_AUTHOR_EMAIL=o@example.org GIT_COMMITTER_NAME=o GIT_COMMITTER_EMAIL=o@example.org\n";

pub(crate) struct Source {
    pub(crate) place: Place,
}

impl Source {
    /// A repository with these files in its one commit.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let source = Self {
            place: Place::new().with_key(),
        };
        for (path, text) in files {
            write(&source.repo().join(path), text);
        }
        source.sh("git init -q -b main . && git add -A -f && git commit -qm first");
        source
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.place.path("repo")
    }

    /// Runs a script of the owner's in the repository.
    pub(crate) fn sh(&self, script: &str) {
        sh(&self.repo(), &format!("{GIT}{script}"));
    }

    /// Writes the contract beside the repository.
    pub(crate) fn contract(&self, rest: &str) -> &Self {
        let text = format!(
            "schema: cto.contract/v1\ntask_id: task\ntitle: Task\ninstruction: Do it.\nrisk_class: copied\nmutation_mode: copied-fixture\nforbidden_actions: {ACTIONS}\n{rest}"
        );
        write(&self.place.path("task.yaml"), &text);
        self
    }

    pub(crate) fn command(&self, argv: &[&str]) -> Command {
        self.command_with(&[], argv)
    }

    /// The same, with more flags.
    pub(crate) fn command_with(&self, flags: &[&str], argv: &[&str]) -> Command {
        let mut args = vec![
            "run",
            "--repo",
            "repo",
            "--contract",
            "task.yaml",
            "--engine",
            "command",
            "--stage",
            "3",
            "--json",
        ];
        args.extend(flags);
        args.push("--");
        args.extend(argv);
        let mut command = self.place.command(&args);
        command
            .env("CTO_HARNESS_ALLOW_COMMAND", "1")
            .env("CTO_HARNESS_COMMAND_STAGE", "3");
        command
    }

    pub(crate) fn run(&self, argv: &[&str]) -> Ran {
        Ran::of(self.command(argv).output().unwrap())
    }

    /// Lets a shell script work, and gives the exit code, the blockers and the report.
    pub(crate) fn work(&self, script: &str) -> (i32, Vec<String>, Value) {
        let ran = self.run(&["sh", "-ec", &format!("{GIT}{script}")]);
        let report = ran.json();
        let codes = report["blockers"]
            .as_array()
            .unwrap_or_else(|| panic!("{}{}", ran.out, ran.err))
            .iter()
            .map(|b| b["code"].as_str().unwrap().to_owned())
            .collect();
        (ran.code.unwrap(), codes, report)
    }

    /// A file of the copy that a backend works in; nothing else is a way to reach it.
    fn made_by_the_backend(&self, name: &str) -> std::path::PathBuf {
        let below = |dir: &std::path::Path| {
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|e| e.path()).collect::<Vec<_>>()
        };
        loop {
            let rooms = below(&self.place.home().join("rooms"));
            let mut made = rooms.iter().flat_map(|run| below(run));
            if let Some(dir) = made.find(|dir| dir.join(name).exists()) {
                return dir.join(name);
            }
            std::thread::yield_now();
        }
    }

    /// Lets a script work, and does something else after it began and before it ends.
    pub(crate) fn work_while(&self, script: &str, meanwhile: impl FnOnce()) -> (i32, Vec<String>) {
        let waiting = format!("{GIT}: > here; while [ -e here ]; do :; done; {script}");
        let mut command = self.command(&["sh", "-ec", &waiting]);
        let mut args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let json = args.iter().position(|a| a == "--json").unwrap();
        args[json] = "--events".into();
        let envs: Vec<_> = command
            .get_envs()
            .filter_map(|(k, v)| Some((k.to_owned(), v?.to_owned())))
            .collect();
        command = Command::new(crate::place::CTO);
        command
            .env_clear()
            .envs(envs)
            .args(args)
            .current_dir(self.place.path(""))
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut meanwhile = Some(meanwhile);
        let mut blockers = Vec::new();
        for line in std::io::BufRead::lines(lines) {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if event["type"] == "backend.started" {
                meanwhile.take().unwrap()();
                std::fs::remove_file(self.made_by_the_backend("here")).unwrap();
            }
            if event["type"] == "run.completed" {
                let found = event["data"]["blockers"].as_array().unwrap();
                blockers = found
                    .iter()
                    .map(|b| b["code"].as_str().unwrap().to_owned())
                    .collect();
            }
        }
        (child.wait().unwrap().code().unwrap(), blockers)
    }

    /// Writes the patch of the latest run beside the repository.
    pub(crate) fn export(&self, name: &str) {
        let mut command = self.place.command(&["export", "latest", "--patch"]);
        let done = command.output().unwrap();
        assert!(done.status.success());
        std::fs::write(self.place.path(name), done.stdout).unwrap();
    }

    pub(crate) fn pack(&self, report: &Value) -> PathBuf {
        self.place.pack(report["run_id"].as_str().unwrap())
    }
}
