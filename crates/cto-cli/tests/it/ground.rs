//! A home of its own for each test, and a small case whose checks need no interpreter.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const CTO: &str = env!("CARGO_BIN_EXE_cto");
pub(crate) const TINY: &str = "tiny";

pub(crate) struct Ground {
    dir: TempDir,
}

impl Ground {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.dir.path().join("config/cto")
    }

    pub(crate) fn cases(&self) -> PathBuf {
        self.dir.path().join("cases")
    }

    pub(crate) fn pack(&self, run_id: &str) -> PathBuf {
        self.home().join("harness-runs").join(run_id)
    }

    /// `cto` with an environment that holds nothing but the test's own places.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(CTO);
        command
            .args(args)
            .env_clear()
            .env("PATH", search_path())
            .env("HOME", self.dir.path())
            .env("CTO_HOME", self.home())
            .env("XDG_CONFIG_HOME", self.dir.path().join("config"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn cto<S: AsRef<OsStr>>(&self, args: &[S]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs with `--json` and gives exit code and document.
    pub(crate) fn json(&self, args: &[&str]) -> (i32, Value) {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let out = self.cto(&args);
        let text = String::from_utf8_lossy(&out.stdout);
        let value = serde_json::from_str(&text).unwrap_or_else(|e| {
            panic!(
                "{args:?}: {e}: {text}{}",
                String::from_utf8_lossy(&out.stderr)
            )
        });
        (out.status.code().unwrap(), value)
    }

    /// Writes a case whose change turns `old` into `new` in `a.txt`, checked by `grep`. Lines of `yaml` override.
    pub(crate) fn case(&self, id: &str, yaml: &str) -> PathBuf {
        let dir = self.cases().join(id);
        std::fs::create_dir_all(dir.join("workspace")).unwrap();
        let mut text = format!(
            "schema: cto.case/v1\nid: {id}\ntitle: Turn old into new\ninstruction: Turn old into new in a.txt\nforbidden_actions: [push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]\n"
        );
        for (key, value) in [
            ("allowed_paths", "[a.txt]"),
            (
                "verification_commands",
                "[{run: grep -q new a.txt, must_fail_before: true}]",
            ),
        ] {
            if !yaml.contains(key) {
                text.push_str(&format!("{key}: {value}\n"));
            }
        }
        text.push_str(yaml);
        write(&dir.join("case.yaml"), &text);
        write(&dir.join("workspace/a.txt"), "old\n");
        write(&dir.join("workspace/b.txt"), "other\n");
        write(&dir.join("fake.patch"), PATCH);
        dir
    }

    pub(crate) fn tiny(&self) -> &'static str {
        self.case(TINY, "");
        TINY
    }

    /// Runs the tiny case and gives its report.
    pub(crate) fn run_tiny(&self) -> (i32, Value) {
        self.tiny();
        self.json(&["run", TINY, "--cases", self.cases().to_str().unwrap()])
    }

    /// Run ids of all packs.
    pub(crate) fn packs(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.home().join("harness-runs")) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// The change of [`Ground::case`].
pub(crate) const PATCH: &str =
    "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n";

pub(crate) fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
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

/// Codes of the blockers of a report.
pub(crate) fn blockers(report: &Value) -> Vec<String> {
    report["blockers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["code"].as_str().unwrap().to_owned())
        .collect()
}
