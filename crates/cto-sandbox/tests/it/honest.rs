//! Honest work in a root from nothing, with and without the recorder: a sandbox in which tools break is no use, and neither is
//! a recorder that cries wolf.

use std::path::Path;

use cto_sandbox::{End, LaunchRequest, Overlay, Recorder, Root, Shown};

use crate::support::{has_namespaces, run};
use crate::workshop::{WORKSPACE, Workshop};

pub(crate) fn has(program: &str) -> bool {
    let found = ["/usr/local/bin", "/usr/bin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(program).exists());
    cto_testkit::has(program, found)
}

/// A toolchain in root's home is nothing for another user.
pub(crate) fn has_toolchain(folder: &Path) -> bool {
    let is_readable = std::fs::read_dir(folder).is_ok();
    cto_testkit::has("toolchain that this user can read", is_readable)
}

/// Runs a script that must work, and returns its last line.
#[track_caller]
fn works(request: &LaunchRequest) -> String {
    let ran = run(request);
    assert_eq!(ran.outcome.end, End::Exited(0), "{ran:?}");
    let wolves: Vec<_> = ran.attempts.iter().filter(|a| a.what != "exec").collect();
    assert!(wolves.is_empty(), "{wolves:?}");
    match request.recorder {
        Recorder::Off => assert_eq!(ran.outcome.recorded, None),
        Recorder::On => assert_eq!(ran.outcome.recorded.unwrap().blind, 0),
    }
    ran.stdout.lines().last().unwrap_or_default().to_owned()
}

const GIT: &str = r#"
    export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
    git init -q -b main . && echo one >file && mkdir -p deep/er && echo two >deep/er/file
    git add -A && git commit -qm first && git checkout -qb side && git mv file moved && git commit -qam second
    git checkout -q main && git merge -q side && git gc -q --aggressive && git fsck --no-progress
    git status --porcelain | wc -l && git log --oneline | wc -l"#;

#[test]
fn git_commits_branches_merges_and_collects_garbage() {
    if !has_namespaces() || !has("git") {
        return;
    }
    for workshop in Workshop::both() {
        assert_eq!(works(&workshop.script(GIT)), "2");
    }
}

#[test]
fn git_works_the_same_on_an_overlay() {
    if !has_namespaces() || !has("git") {
        return;
    }
    for workshop in Workshop::both() {
        let mut request = workshop.script(&format!(
            "{GIT}; cat below; rm below; echo 3 >\"$HOME/x\"; ls"
        ));
        on_overlay(&workshop, &mut request);
        assert_eq!(works(&request), "moved");
        let upper = workshop.path().join("upper");
        assert!(upper.join("moved").exists());
        assert!(upper.join(".git/HEAD").exists());
        make_removable(&workshop.path().join("work"));
    }
}

/// Lays the workspace over what is in it.
#[expect(
    clippy::disallowed_methods,
    reason = "test data needs no atomic writer"
)]
pub(crate) fn on_overlay(workshop: &Workshop, request: &mut LaunchRequest) {
    for name in ["upper", "work"] {
        std::fs::create_dir(workshop.path().join(name)).unwrap();
    }
    std::fs::write(workshop.space().join("below"), "lower\n").unwrap();
    request.binds.clear();
    request.overlay = Some(Overlay {
        lowers: vec![workshop.space()],
        upper: workshop.path().join("upper"),
        work: workshop.path().join("work"),
        at: WORKSPACE.into(),
    });
}

pub(crate) fn make_removable(work: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let inner = work.join("work");
    std::fs::set_permissions(inner, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn python_makes_an_environment_and_runs_processes_and_threads() {
    if !has_namespaces() || !has("python3") {
        return;
    }
    for workshop in Workshop::both() {
        let script = r#"
        /usr/bin/python3 -m venv --without-pip env && . env/bin/activate && python -c '
import concurrent.futures as f, multiprocessing as m, subprocess, tempfile, threading
if __name__ == "__main__":
    with m.Manager() as manager: manager.list([1])
    with f.ThreadPoolExecutor(32) as pool: total = sum(pool.map(lambda n: n, range(1000)))
    with tempfile.TemporaryDirectory() as folder: subprocess.run(["true"], cwd=folder, check=True)
    print(total)'"#;
        assert_eq!(works(&workshop.script(script)), "499500");
    }
}

#[test]
fn node_reads_writes_serves_and_starts_workers() {
    if !has_namespaces() || !has("node") {
        return;
    }
    for workshop in Workshop::both() {
        let script = r#"node -e '
        const fs = require("fs"), http = require("http"), os = require("os"), cp = require("child_process");
        const { Worker } = require("worker_threads");
        fs.promises.writeFile("a", "text").then(() => new Promise(done => {
            new Worker("0", { eval: true }).on("exit", done);
        })).then(() => {
            cp.execSync("true"); os.networkInterfaces(); os.userInfo();
            const server = http.createServer((q, a) => a.end("served")).listen(0, "127.0.0.1", () =>
                http.get({ port: server.address().port, host: "localhost", family: 4 }, r => {
                    r.on("data", d => console.log(String(d))).on("end", () => server.close());
                }));
        })'"#;
        assert_eq!(works(&workshop.script(script)), "served");
    }
}

#[test]
fn cargo_builds_offline_with_a_toolchain_from_elsewhere() {
    let cargo = Path::new(env!("CARGO"));
    let toolchain = cargo.parent().and_then(Path::parent).unwrap();
    if !has_namespaces() || !has_toolchain(toolchain) || !has("cc") {
        return;
    }
    for workshop in Workshop::both() {
        let mut request = workshop.script(
        r#"export PATH="/opt/toolchain/bin:$PATH" CARGO_HOME="$HOME/cargo"
        cargo init -q --vcs none --name tiny . && cargo test -q --offline && cargo run -q --offline"#,
    );
        let Root::Built(root) = &mut request.root else {
            unreachable!("the workshop builds its root")
        };
        root.read_only.push(Shown {
            from: toolchain.to_owned(),
            at: "/opt/toolchain".into(),
        });
        assert_eq!(works(&request), "Hello, world!");
    }
}

#[test]
fn make_runs_jobs_side_by_side_and_compiles() {
    if !has_namespaces() || !has("make") || !has("cc") {
        return;
    }
    for workshop in Workshop::both() {
        let script = r#"
        for n in 1 2 3 4 5 6 7 8; do echo "int f$n(void){return $n;}" >f$n.c; done
        echo 'int f8(void);int main(void){return f8()-8;}' >main.c
        printf 'all: main.o f1.o f2.o f3.o f4.o f5.o f6.o f7.o f8.o\n\tcc -o all $^\n' >Makefile
        make -s -j8 && ./all && echo built"#;
        assert_eq!(works(&workshop.script(script)), "built");
    }
}

#[test]
fn a_shell_pipes_and_forks_a_thousand_times_and_names_its_own_output() {
    if !has_namespaces() {
        return;
    }
    for workshop in Workshop::both() {
        let script = r#"
        seq 1000 | sort -rn | head -1 >/dev/stderr
        i=0; while [ $i -lt 1000 ]; do (:) & i=$((i+1)); done; wait
        mkfifo pipe; (echo through >pipe &); read word <pipe
        echo "$word" >/dev/stdout; echo gone >/dev/null; date >/dev/full || tty || test -c /dev/zero && echo "$word""#;
        assert_eq!(works(&workshop.script(script)), "through");
    }
}
