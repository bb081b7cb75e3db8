//! A place with a small case whose change is a patch and whose checks need no interpreter.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

pub(crate) use crate::place::{CTO, search_path, write};
use crate::place::{Place, head};

pub(crate) const TINY: &str = "tiny";

/// The change of [`TestHome::case`].
const PATCH: &str =
    "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n";

pub(crate) struct TestHome {
    place: Place,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        Self {
            place: Place::new(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.place.path("")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.place.home()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.place.path("config/cto")
    }

    /// Writes `harness.yaml` with these settings.
    pub(crate) fn configure(&self, settings: &str) {
        let dir = self.config();
        std::fs::create_dir_all(&dir).unwrap();
        write(
            &dir.join("harness.yaml"),
            &format!("schema: cto.harness/v1\n{settings}"),
        );
    }

    pub(crate) fn cases(&self) -> PathBuf {
        self.place.path("cases")
    }

    pub(crate) fn pack(&self, run_id: &str) -> PathBuf {
        self.place.pack(run_id)
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = self.place.command(&[]);
        command.args(args);
        command
    }

    fn cto(&self, args: &[&str]) -> Output {
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
        let mut text = head(id);
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

    pub(crate) fn tiny(&self) {
        self.case(TINY, "");
    }

    /// Runs the tiny case and gives its report.
    pub(crate) fn run_tiny(&self) -> (i32, Value) {
        self.tiny();
        self.json(&["run", TINY, "--cases", self.cases().to_str().unwrap()])
    }

    /// The run of a lane; a gated one has a run of `fake` beside it, which it is measured by.
    pub(crate) fn run_of(&self, backend: &str) -> String {
        let is_its = |id: &String| {
            let log = std::fs::read_to_string(self.pack(id).join("events.normalized.jsonl"));
            let log = log.unwrap_or_default();
            let first: Value = serde_json::from_str(log.lines().next().unwrap_or("null")).unwrap();
            first["backend"] == backend
        };
        self.packs().into_iter().find(is_its).unwrap()
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

/// Every file below a directory.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(files(&path));
        } else {
            out.push(path);
        }
    }
    out.sort();
    out
}

/// Codes of the blockers of a report.
pub(crate) fn blockers(report: &Value) -> Vec<String> {
    let listed = report["blockers"].as_array().unwrap();
    listed
        .iter()
        .map(|b| b["code"].as_str().unwrap().to_owned())
        .collect()
}
