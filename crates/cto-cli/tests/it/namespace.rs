//! A home on a file system of its own, which only the commands of one script see.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::test_home::{CTO, TestHome};

/// How a user gets a place for mounts: root by itself, others as root of a namespace.
fn namespace() -> Command {
    let is_root = rustix::process::geteuid().is_root();
    let mut command = Command::new("unshare");
    command.arg(if is_root { "-m" } else { "-rm" });
    command
}

/// Whether this machine lets a test mount something. Without it the test leaves out what needs it; in CI it fails.
pub(crate) fn has_mounts() -> bool {
    let mut tried = namespace();
    tried.args(["sh", "-c", "mount -t tmpfs none /mnt"]);
    let is_there = tried.output().is_ok_and(|out| out.status.success());
    cto_testkit::has("mount namespaces", is_there)
}

/// What a script wrote to the files of its directory `out`.
pub(crate) struct Told {
    test_home: TestHome,
}

impl Told {
    pub(crate) fn text(&self, name: &str) -> String {
        let path = self.test_home.path().join("out").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// A document, and the code that its command ended with.
    pub(crate) fn json(&self, name: &str) -> (i32, Value) {
        let code = self.text(&format!("{name}.code")).trim().parse().unwrap();
        let text = self.text(&format!("{name}.json"));
        let told = self.text(&format!("{name}.err"));
        let value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{told}"));
        (code, value)
    }
}

/// Defines for a script: `keep NAME ARGS…`, which keeps what a command of `cto` says.
const TOOLS: &str = r#"
keep() {
    name=$1; shift; code=0
    "$CTO" --json "$@" > "out/$name.json" 2> "out/$name.err" || code=$?
    echo $code > "out/$name.code"
}
"#;

/// Runs a script in a namespace of its own, in the directory of the place.
pub(crate) fn script(test_home: TestHome, text: &str) -> Told {
    let home = test_home.home();
    std::fs::create_dir_all(&home).unwrap();
    std::fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::create_dir_all(test_home.path().join("out")).unwrap();
    let mut command = namespace();
    command.args(["sh", "-ec", &format!("{TOOLS}{text}")]);
    let like: Command = test_home.command::<&str>(&[]);
    command.current_dir(test_home.path()).env_clear();
    command.envs(like.get_envs().filter_map(|(k, v)| Some((k, v?))));
    command.env("CTO", Path::new(CTO));
    let out = command.output().unwrap();
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{text}: {told}");
    Told { test_home }
}
