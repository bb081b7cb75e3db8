//! An oracle outside the process of the code under test: nothing that the code left behind reaches it.

use serde_json::{Value, json};

use crate::test_home::{TestHome, write};

/// What the changed program leaves wherever it may write, for whoever comes after it.
const LEAVES: &str = r#"#!/bin/sh
grep -q new a.txt || exit 1
# Start-up files of interpreters and tools.
for version in 9 10 11 12 13 14 15; do
    place="$HOME/.local/lib/python3.$version/site-packages"
    mkdir -p "$place"
    for hook in usercustomize sitecustomize; do
        echo 'import os; os.write(1, b"forged\n"); os._exit(0)' > "$place/$hook.py"
    done
    echo 'import os; os._exit(0)' > "$place/hook.pth"
done
mkdir -p "$HOME/.config/pip" "$HOME/bin" "$HOME/.cargo"
for file in .pdbrc .profile .bashrc .shrc .noderc .npmrc .pythonstartup.py .config/pip/pip.conf .cargo/config.toml; do
    echo 'exit 0' > "$HOME/$file"
done
printf '#!/bin/sh\nexit 0\n' > "$HOME/bin/grep"; chmod +x "$HOME/bin/grep"
# Caches that nobody compares with their source.
mkdir -p __pycache__ node_modules/.cache target/debug "$TMPDIR/node-compile-cache" "$HOME/.cache/go-build"
for file in __pycache__/strings.cpython-311.pyc node_modules/.cache/x target/debug/x "$TMPDIR/node-compile-cache/x" "$HOME/.cache/go-build/x"; do
    echo forged > "$file"
done
# Places that are shared elsewhere.
for dir in /tmp /dev/shm "$TMPDIR"; do echo forged > "$dir/left" 2>/dev/null; done
# A process that waits for the oracle.
setsid sh -c 'exec sleep 77777' >/dev/null 2>&1 &
exit 0
"#;

/// Refuses to judge where anybody was before.
const LOOKS: &str = r#"#!/bin/sh
found=$(
    for dir in "$HOME" /tmp /dev/shm "$TMPDIR"; do
        find "$dir" -mindepth 1 -type f
    done
    find . -type f | LC_ALL=C sort | tr '\n' ' ' | grep -v '^\./\.gitignore \./a\.txt \./b\.txt \./leaves\.sh $'
    for dir in /proc/[0-9]*; do
        tr '\0' ' ' < "$dir/cmdline" 2>/dev/null | grep 'sleep 77777'
    done
)
test -z "$found" || { echo "somebody was here: $found"; exit 1; }
grep -q new a.txt
"#;

const ORACLE: &str = "sh \"$CTO_ORACLE/looks.sh\"";

fn case(home: &TestHome, id: &str, commands: &str) {
    let dir = home.case(
        id,
        &format!("allowed_paths: [a.txt, leaves.sh]\nverification_commands:\n{commands}"),
    );
    std::fs::remove_file(dir.join("fake.patch")).unwrap();
    write(&dir.join("fake/a.txt"), "new\n");
    write(&dir.join("fake/leaves.sh"), LEAVES);
    write(
        &dir.join("workspace/.gitignore"),
        "__pycache__/\nnode_modules/\ntarget/\n",
    );
    write(&dir.join("oracle/looks.sh"), LOOKS);
}

/// Status, level of the whole, and for each command its room and level.
fn judged(home: &TestHome, id: &str, more: &[&str]) -> Value {
    let cases = home.cases();
    let args = [&["run", id, "--cases", cases.to_str().unwrap()], more].concat();
    let (_, report) = home.json(&args);
    let verification = &report["verification"];
    let commands = verification["commands"].as_array().unwrap();
    let rooms: Vec<String> = commands
        .iter()
        .map(|c| {
            let word = |key: &str| c[key].as_str().unwrap().to_owned();
            format!("{} {}", word("room"), word("level"))
        })
        .collect();
    if report["status"] == "pass" {
        let run_id = report["run_id"].as_str().unwrap();
        assert_eq!(home.json(&["verify", run_id]).0, 0);
    }
    json!([report["status"], verification["level"], rooms])
}

#[test]
fn nothing_that_an_earlier_command_left_reaches_an_oracle() {
    let home = TestHome::new();
    let commands = format!("  - sh leaves.sh\n  - run: {ORACLE}\n    repeat: 2\n");
    case(&home, "left", &commands);
    let expected = json!([
        "pass",
        "verified",
        ["shared self_reported", "own verified", "own verified"]
    ]);
    assert_eq!(judged(&home, "left", &[]), expected);
    if cto_testkit::has("bwrap", std::path::Path::new("/usr/bin/bwrap").is_file()) {
        assert_eq!(judged(&home, "left", &["--sandbox", "bwrap"]), expected);
    }
}

#[test]
fn an_oracle_that_shares_its_room_finds_what_was_left_and_verifies_nothing() {
    let home = TestHome::new();
    // One line for the shell: what stands before the oracle runs in its room.
    case(
        &home,
        "one-line",
        &format!("  - run: sh leaves.sh && {ORACLE}\n"),
    );
    assert_eq!(
        judged(&home, "one-line", &[]),
        json!(["fail", "absent", ["shared self_reported"]])
    );
    case(&home, "after-it", &format!("  - run: '{ORACLE}; true'\n"));
    assert_eq!(
        judged(&home, "after-it", &[]),
        json!(["pass", "self_reported", ["shared self_reported"]])
    );
}

#[test]
fn the_weak_mode_gives_an_oracle_its_own_room_and_no_sandbox_gives_none() {
    let home = TestHome::new();
    let looks =
        "grep -q new a.txt && test -z \"$(find \"$HOME\" \"$TMPDIR\" -mindepth 1 -type f)\"\n";
    for id in ["weak", "bare"] {
        let leaves = "echo x > \"$HOME/.profile\"; echo x > \"$TMPDIR/left\"; grep -q new a.txt";
        let dir = home.case(
            id,
            &format!("verification_commands:\n  - run: '{leaves}'\n  - run: {ORACLE}\n"),
        );
        write(&dir.join("oracle/looks.sh"), looks);
    }
    assert_eq!(
        judged(&home, "weak", &["--weak"]),
        json!(["pass", "verified", ["shared self_reported", "own verified"]])
    );
    // What may write everywhere may write where the next room will be.
    assert_eq!(
        judged(&home, "bare", &["--sandbox", "none"]),
        json!([
            "fail",
            "absent",
            ["shared self_reported", "shared self_reported"]
        ])
    );
}

/// Version managers put a program of this kind in the place of each interpreter: it looks into the directory that it is
/// started in, and a version may be a path.
const SHIM: &str = r#"#!/bin/sh
for file in .tool-versions .python-version mise.local.toml; do
    read -r _ version < "$file" 2>/dev/null && exec "$version/python3" "$@"
done
exec /usr/bin/python3 "$@"
"#;

#[test]
fn no_file_of_the_change_chooses_the_interpreter_of_an_oracle() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = TestHome::new();
    let executable = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let shims = home.path().join("shims");
    write(&shims.join("python3"), SHIM);
    executable(&shims.join("python3"));
    let path = format!("{}:{}", shims.display(), crate::test_home::search_path());
    for name in [".tool-versions", ".python-version", "mise.local.toml"] {
        let dir = home.case(
            "shim",
            "allowed_paths: [\"**\"]\nverification_commands:\n  - run: python3 -I \"$CTO_ORACLE/looks.py\"\n",
        );
        write(
            &dir.join("oracle/looks.py"),
            "raise SystemExit('new' not in open('a.txt').read())\n",
        );
        std::fs::remove_file(dir.join("fake.patch")).unwrap();
        write(&dir.join("fake/a.txt"), "wrong\n");
        write(&dir.join("fake").join(name), "python ./bin\n");
        write(&dir.join("fake/bin/python3"), "#!/bin/sh\nexit 0\n");
        executable(&dir.join("fake/bin/python3"));
        let ran = home
            .command(&["run", "shim", "--json", "--cases"])
            .arg(home.cases())
            .env("PATH", &path)
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(report["status"], "fail", "{name}: {report}");
        assert_eq!(report["blockers"][0]["code"], "disallowed_file_change");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
