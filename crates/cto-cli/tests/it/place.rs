//! A home, a config and a directory of cases, thrown away after the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const CTO: &str = env!("CARGO_BIN_EXE_cto");

pub(crate) struct Place {
    dir: TempDir,
}

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the output is UTF-8");
        Self {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("{e}: {}\n{}", self.out, self.err))
    }

    /// Exit code and error code: `2 case_unknown`.
    pub(crate) fn error(&self) -> String {
        let code = self.code.unwrap_or(-1);
        format!(
            "{code} {}",
            self.json()["error"]["code"].as_str().unwrap_or("no error")
        )
    }

    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// Not below the directory that a confined process has one of its own of.
    pub(crate) fn elsewhere() -> Self {
        Self {
            dir: tempfile::tempdir_in("/var/tmp").unwrap(),
        }
    }

    /// Not below any temporary directory: no program of one is ever admitted.
    pub(crate) fn lasting() -> Self {
        Self {
            dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(CTO);
        command.env_clear().current_dir(self.dir.path()).args(args);
        command
            .env("PATH", search_path())
            .stdin(Stdio::null())
            .env("HOME", self.dir.path());
        command
            .env("CTO_HOME", self.home())
            .env("XDG_CONFIG_HOME", self.path("config"));
        command
    }

    pub(crate) fn cto(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// Makes the key, so that a run has nothing to tell about it.
    pub(crate) fn with_key(self) -> Self {
        self.cto(&["key", "new"]).expect(0);
        self
    }

    /// Does the first shipped case and gives the path of its pack.
    pub(crate) fn passed(&self) -> PathBuf {
        let report = self
            .cto(&["run", "r1-string-slugify", "--json", "-q"])
            .expect(0)
            .json();
        self.pack(report["run_id"].as_str().unwrap())
    }

    pub(crate) fn pack(&self, id: &str) -> PathBuf {
        self.home().join("harness-runs").join(id)
    }

    /// Checks that no pack of a validator stands among the runs.
    #[track_caller]
    pub(crate) fn assert_no_runs(&self) {
        let runs = self.home().join("harness-runs");
        assert_eq!(runs.read_dir().unwrap().count(), 0);
    }

    /// Writes a case of one file; `rest` is added to its case.yaml.
    pub(crate) fn case(&self, id: &str, rest: &str) -> PathBuf {
        let dir = self.path("cases").join(id);
        write(&dir.join("workspace/a.txt"), "before\n");
        write(&dir.join("fake/a.txt"), "after\n");
        write(&dir.join("case.yaml"), &format!("{}{rest}", head(id)));
        dir
    }
}

/// The beginning of a case.yaml, up to its fifteenth line.
pub(crate) fn head(id: &str) -> String {
    let actions = "push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation";
    format!(
        "schema: cto.case/v1\nid: {id}\ntitle: Change a.txt\ninstruction: Change a.txt.\nforbidden_actions: [{actions}]\n"
    )
}

pub(crate) const GOOD_REST: &str = "allowed_paths: [a.txt]\nverification_commands: [{run: grep -q after a.txt, must_fail_before: true}]\n";

pub(crate) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Runs another program and insists that it worked.
pub(crate) fn sh(dir: &Path, script: &str) {
    let done = Command::new("sh")
        .arg("-c")
        .arg(script)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// `PATH` with the interpreter itself first: a version manager's shim would cost more than the checks.
pub(crate) fn search_path() -> String {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let own = std::env::var("PATH").unwrap();
        let out = Command::new("python3")
            .args(["-c", "import sys; print(sys.executable)"])
            .output()
            .unwrap();
        let python = PathBuf::from(String::from_utf8(out.stdout).unwrap().trim());
        format!("{}:{own}", python.parent().unwrap().display())
    })
    .clone()
}
