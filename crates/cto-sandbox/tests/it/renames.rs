//! Directories of an overlay get another name, which the kernel alone refuses.

use std::fs;
use std::path::Path;

use cto_sandbox::{End, Root, Shown};

use crate::honest::{has, has_toolchain, make_removable, on_overlay};
use crate::support::{Ran, has_file, has_namespaces, run};
use crate::workshop::Workshop;

const TOOLS: &str = include_str!("attack.py");
const PYTHON: &str = "/usr/bin/python3";
const FILES: usize = 3_000;

/// A workspace over a tree: `tree/part-N/file-M`, with a link, an empty directory and one that must not be written.
#[expect(
    clippy::disallowed_methods,
    reason = "test data needs no atomic writer"
)]
fn workshop(recorded: bool, files: usize) -> Workshop {
    use std::os::unix::fs::PermissionsExt;
    let workshop = match recorded {
        true => Workshop::recorded(),
        false => Workshop::new(),
    };
    let tree = workshop.space().join("tree");
    for part in 0..files.div_ceil(100) {
        fs::create_dir_all(tree.join(format!("part-{part}"))).unwrap();
    }
    for file in 0..files {
        let path = tree.join(format!("part-{}/file-{file}", file / 100));
        fs::write(path, file.to_string()).unwrap();
    }
    fs::create_dir_all(tree.join("deep/er/still")).unwrap();
    std::os::unix::fs::symlink("part-0/file-0", tree.join("link")).unwrap();
    let frozen = tree.join("deep/er");
    fs::set_permissions(frozen, fs::Permissions::from_mode(0o555)).unwrap();
    workshop
}

fn in_overlay(workshop: &Workshop, argv: &[&str]) -> Option<Ran> {
    if !has_namespaces() || !has_file(argv[0]) {
        return None;
    }
    let mut request = workshop.request(argv);
    on_overlay(workshop, &mut request);
    let ran = run(&request);
    make_removable(&workshop.path().join("work"));
    Some(ran)
}

/// Runs Python in an overlay and compares what it says.
#[track_caller]
fn gives(workshop: &Workshop, program: &str, expected: &str) {
    let program = format!("{TOOLS}\n{program}");
    if let Some(ran) = in_overlay(workshop, &[PYTHON, "-I", "-c", &program]) {
        let wanted: Vec<_> = expected.split_whitespace().collect();
        let seen: Vec<_> = ran.stdout.split_whitespace().collect();
        assert_eq!(seen, wanted, "{}", ran.stderr);
        let other = ran.attempts.iter().find(|a| a.what != "exec");
        assert_eq!(other, None);
    }
}

#[test]
fn a_tree_of_three_thousand_files_gets_another_name() {
    gives(
        &workshop(true, FILES),
        r#"
def shape(top):
    return sorted((os.path.relpath(folder, top), sorted(names), sorted(files), oct(os.stat(folder).st_mode),
        os.stat(folder).st_mtime_ns) for folder, names, files in os.walk(top))
before = shape("tree")
os.rename("tree", "other")
print(shape("other") == before, os.path.exists("tree"), sorted(os.listdir(".")))
print(open("other/part-29/file-2999").read(), os.readlink("other/link"))
# There and back, and by every call.
call("renameat2", 276 if ARM else 316, -100, b"other", -100, b"tree", 1)
folder = os.open("tree", os.O_RDONLY)
os.rename("part-1", "moved", src_dir_fd=folder, dst_dir_fd=folder)
os.rename("tree/part-2/", "tree/moved/in/")
print(len(os.listdir("tree/moved/in")), len(os.listdir("tree/moved")))
"#,
        "True False ['below', 'other'] 2999 part-0/file-0 renameat2 ALLOWED 100 101",
    );
}

#[test]
fn without_the_recorder_the_kernel_refuses_it() {
    let program = r#"attempt("rename", lambda: os.rename("tree", "other"))"#;
    gives(&workshop(false, 100), program, "rename EXDEV");
}

#[test]
fn what_the_kernel_would_refuse_anywhere_is_refused() {
    gives(
        &workshop(true, 200),
        r#"
NOREPLACE = 1
def rename2(old, new, flags):
    call("flags", 276 if ARM else 316, -100, old, -100, new, flags)
os.mkdir("empty"); os.mkdir("full"); os.mkdir("full/in"); open("file", "w"); os.mkdir("/tmp/elsewhere")
for new in ["full", "file", "tree/deep/in", "/tmp/there", "none/there"]:
    attempt("to", lambda: os.rename("tree", new))
rename2(b"tree", b"empty", NOREPLACE)
rename2(b"tree", b"full", 2)
attempt("none", lambda: os.rename("absent", "new"))
attempt("dot", lambda: os.rename("tree/.", "new"))
print(len(os.listdir("tree")), sorted(os.listdir(".")))
attempt("empty", lambda: os.rename("tree", "empty"))
print(len(os.listdir("empty")), sorted(os.listdir(".")))
"#,
        "to ENOTEMPTY to ENOTDIR to EINVAL to EXDEV to ENOENT flags EEXIST flags EXDEV none ENOENT dot EBUSY
         4 ['below', 'empty', 'file', 'full', 'tree'] empty ALLOWED 4 ['below', 'empty', 'file', 'full']",
    );
}

#[test]
fn many_at_once_and_a_mover_that_is_killed_leave_every_file_somewhere() {
    gives(
        &workshop(true, 1_000),
        r#"
import signal, threading
def turn(n):
    for step in range(3):
        os.rename("tree/part-%d" % n, "tree/turn-%d" % n)
        os.rename("tree/turn-%d" % n, "tree/part-%d" % n)
threads = [threading.Thread(target=turn, args=(n,)) for n in range(10)]
for thread in threads: thread.start()
for thread in threads: thread.join()
def files():
    return sum(len(names) for _, _, names in os.walk("."))
print(files())
mover = [pid for pid in os.listdir("/proc") if pid.isdigit() and open("/proc/%s/comm" % pid).read() == "cto-mover\n"]
attempt("look", lambda: os.listdir("/proc/%s/fd" % mover[0]))
expected = None
try:
    os.kill(int(mover[0]), signal.SIGKILL)
    while os.path.exists("/proc/%s/fd" % mover[0]): pass
    expected = errno.EXDEV
except PermissionError:
    # Landlock keeps signals within the command, where the kernel has that.
    pass
try:
    os.rename("tree/deep", "tree/deeper")
    print(expected is None)
except OSError as error:
    print(error.errno == expected)
print(files())
"#,
        "1002 look EACCES True 1002",
    );
}

#[test]
fn git_and_build_tools_rename_directories() {
    if !has("git") {
        return;
    }
    let files = 1_000;
    let workshop = workshop(true, files);
    let text = r#"
        set -e
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q -b main . && git add -A && git commit -qm first
        git mv tree newtree && git commit -qam second && git status --porcelain
        git mv newtree/part-3 part && git reset -q --hard && git checkout -q HEAD~1
        mv tree/part-4 part && mv part tree/part-4
        if command -v node >/dev/null; then node -e '
            const fs = require("fs");
            fs.renameSync("tree/part-5", "node"); fs.renameSync("node", "tree/part-5");
            fs.promises.rename("tree/part-6", "node").then(() => fs.promises.rename("node", "tree/part-6"))'
        fi
        # What git does not know, empty directories, stays where it was.
        rmdir newtree/deep/er/still 2>/dev/null || chmod -R u+w newtree && rm -r newtree
        git status --porcelain && ls && find tree -type f | wc -l"#;
    let Some(ran) = in_overlay(&workshop, &["/bin/sh", "-c", text]) else {
        return;
    };
    assert_eq!(ran.outcome.end, End::Exited(0), "{}", ran.stderr);
    assert_eq!(
        ran.stdout,
        format!("below\ntree\n{files}\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn cargo_and_npm_build_in_an_overlay_and_their_directories_move() {
    let cargo = Path::new(env!("CARGO"));
    let toolchain = cargo.parent().and_then(Path::parent).unwrap();
    if !has_namespaces() || !has_toolchain(toolchain) || !has("cc") || !has("npm") {
        return;
    }
    let workshop = workshop(true, FILES);
    let mut request = workshop.script(
        r#"set -e
        export PATH="/opt/toolchain/bin:$PATH" CARGO_HOME="$HOME/cargo"
        mv tree renamed && mkdir new && cd new && cargo init -q --vcs none --name tiny .
        cargo build -q --offline && echo '//' >>src/main.rs && cargo run -q --offline
        cd .. && mv new moved && cd moved && cargo run -q --offline && cd ..
        mkdir pack && cd pack && echo '{"name":"pack","version":"1.0.0"}' >package.json && npm pack --offline --silent
        cd .. && mkdir user && cd user && echo '{"name":"user","version":"1.0.0"}' >package.json
        npm install --offline --no-audit --no-fund --silent ../pack/pack-1.0.0.tgz
        mv node_modules other && npm ci --offline --no-audit --no-fund --silent && ls node_modules other"#,
    );
    let Root::Built(root) = &mut request.root else {
        unreachable!("the workshop builds its root")
    };
    root.read_only.push(Shown {
        from: toolchain.to_owned(),
        at: "/opt/toolchain".into(),
    });
    on_overlay(&workshop, &mut request);
    let ran = run(&request);
    make_removable(&workshop.path().join("work"));
    assert_eq!(ran.outcome.end, End::Exited(0), "{}", ran.stderr);
    let last: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(
        last,
        [
            "Hello, world!",
            "Hello, world!",
            "pack-1.0.0.tgz",
            "node_modules:",
            "pack",
            "",
            "other:",
            "pack"
        ]
    );
}
