//! A repository of the operator's, a contract for it, and programs that work on its copy.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::place::{Place, Ran, sh, write};

const ACTIONS: &str = "[push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]";

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
            "--",
        ];
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
