//! What an agent sees of the tools that its operator installed: what they load, and no token that lies beside or in it.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::place::{CTO, Ran, sh, write};
use crate::repositories::plain;
use crate::source::Source;

/// A user without any privilege.
const NOBODY: u32 = 65534;

/// Files of the operator's home with their modes. What holds `SECRET` is for nobody inside.
const TOOLS: &[(&str, u32, &str)] = &[
    (
        ".fly/bin/flyer",
        0o755,
        "#!/bin/sh\ncat \"${0%/bin/*}/lib/text\"\n",
    ),
    (".fly/lib/text", 0o644, "fly works\n"),
    (".fly/config.yml", 0o600, "SECRET\n"),
    (
        ".pulumi/bin/puller",
        0o755,
        "#!/bin/sh\ncat \"${0%/bin/*}/share/text\"\n",
    ),
    (".pulumi/share/text", 0o644, "pulumi works\n"),
    (".pulumi/credentials.json", 0o600, "SECRET\n"),
    // Where even programs look.
    (".fly/share/token", 0o640, "SECRET\n"),
    (".fly/share/text", 0o644, "plain\n"),
    (".fly/bin/.session", 0o600, "SECRET\n"),
    (".fly/lib/keys/id", 0o644, "SECRET\n"),
    // Readable for all, and still none of a program's parts.
    (".cargo/bin/mine", 0o755, "#!/bin/sh\necho mine works\n"),
    (".cargo/credentials.toml", 0o644, "SECRET\n"),
    ("elsewhere/key", 0o644, "SECRET\n"),
    // The data of all that a user has, beside his own programs.
    (".local/bin/own", 0o755, "#!/bin/sh\necho own works\n"),
    (".local/share/app/token", 0o644, "SECRET\n"),
    (".config/gh/hosts.yml", 0o644, "SECRET\n"),
    (".config/tool/bin/ctl", 0o755, "#!/bin/sh\necho ctl works\n"),
    (".config/tool/config.json", 0o644, "SECRET\n"),
    (".config/tool/bin/.netrc", 0o600, "SECRET\n"),
];

/// Directories of programs, below the home.
const PROGRAMS: [&str; 5] = [
    ".fly/bin",
    ".pulumi/bin",
    ".fly/../.cargo/bin",
    ".local/bin",
    ".config/tool/bin",
];

fn with_tools() -> Source {
    let source = plain();
    for (path, mode, text) in TOOLS {
        let file = source.place.path(path);
        write(&file, text);
        fs::set_permissions(&file, Permissions::from_mode(*mode)).unwrap();
    }
    let closed = source.place.path(".fly/lib/keys");
    fs::set_permissions(closed, Permissions::from_mode(0o700)).unwrap();
    symlink(
        source.place.path("elsewhere"),
        source.place.path(".pulumi/lib"),
    )
    .unwrap();
    // Links in a part lead where they lead; out of it there is nothing.
    for (target, link) in [
        (".config/gh", ".fly/lib/gh"),
        (".config/gh/hosts.yml", ".fly/share/hosts"),
    ] {
        symlink(source.place.path(target), source.place.path(link)).unwrap();
    }
    source
}

/// Runs as a user whose own files these are: root's agent is another user anyway.
fn run(source: &Source, flags: &[&str], script: &str) -> Ran {
    as_its_user(source, &command(source, flags, script))
}

fn command(source: &Source, flags: &[&str], script: &str) -> Command {
    let home = source.place.path("");
    let path = PROGRAMS.map(|dir| home.join(dir).display().to_string());
    let path = path.join(":");
    let mut command = match flags {
        // So little holds there that no repository is worked on.
        ["--weak"] => source.place.command(&[
            "run",
            "r1-string-slugify",
            "--engine",
            "command",
            "--stage",
            "2",
            "--json",
            "--weak",
            "--",
            "sh",
            "-ec",
            script,
        ]),
        _ => source.command_with(flags, &["sh", "-ec", script]),
    };
    command.env("CTO_HARNESS_ALLOW_COMMAND", "1");
    if flags == ["--weak"] {
        command.env("CTO_HARNESS_COMMAND_STAGE", "2");
    }
    command.env("PATH", format!("{path}:/usr/bin:/bin"));
    command
}

fn as_its_user(source: &Source, command: &Command) -> Ran {
    let home = source.place.path("");
    let set = command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    let set: Vec<(&OsStr, &OsStr)> = set.collect();
    if !rustix::process::geteuid().is_root() {
        let mut same = Command::new(command.get_program());
        same.args(command.get_args()).env_clear().envs(set);
        return Ran::of(same.current_dir(home).output().unwrap());
    }
    let program = home.join("cto");
    fs::copy(CTO, &program).unwrap();
    sh(&home, &format!("chown -Rh {NOBODY}:{NOBODY} ."));
    let mut other = Command::new("setpriv");
    let id = ["--reuid", "--regid"].map(|flag| format!("{flag}={NOBODY}"));
    other.args(id).arg("--clear-groups").arg(program);
    other
        .args(command.get_args())
        .env_clear()
        .envs(set)
        .current_dir(home);
    Ran::of(other.output().unwrap())
}

/// Uses every tool, looks at all that is there, and does the work only if no secret was among it.
fn searching(home: &Path, tools: &str) -> String {
    format!(
        "{tools}; if grep -rs SECRET {home} {home}/.fly {home}/.pulumi {home}/.cargo; then exit 9; fi; for f in {files}; do if grep -qs SECRET $f; then exit 9; fi; done; mkdir -p src; echo new > src/a.txt",
        home = home.display(),
        files = TOOLS
            .iter()
            .map(|(path, ..)| format!("{}/{path}", home.display()))
            .collect::<Vec<_>>()
            .join(" "),
    )
}

#[test]
fn a_token_beside_or_in_a_tool_is_never_seen_and_the_tool_works() {
    let source = with_tools();
    let home = source.place.path("");
    let all = "test \"$(flyer)\" = 'fly works'; test \"$(puller)\" = 'pulumi works'; test \"$(mine)\" = 'mine works'; grep -q plain \"$(dirname $(which flyer))/../share/text\"";
    let report = run(&source, &[], &searching(&home, all)).expect(0).json();
    let hidden = report["sandbox"]["hidden_paths"].as_array().unwrap();
    let hidden: Vec<String> = hidden
        .iter()
        .map(|h| {
            format!(
                "{} {}",
                h["path"].as_str().unwrap(),
                h["reason"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        hidden,
        [
            "~/.pulumi/lib leaves_installation",
            "~/.config/tool/bin/.netrc masked",
            "~/.fly/bin/.session masked",
            "~/.fly/lib/keys masked",
            "~/.fly/share/token masked",
        ]
    );
    if cto_testkit::has("bwrap", Path::new("/usr/bin/bwrap").is_file()) {
        run(&source, &["--sandbox", "bwrap"], &searching(&home, all)).expect(0);
    }
}

#[test]
fn a_service_with_another_home_shows_no_more_of_its_users() {
    let source = with_tools();
    let home = source.place.path("");
    let tools = "test \"$(own)\" = 'own works'; test \"$(ctl)\" = 'ctl works'";
    let mut command = command(&source, &[], &searching(&home, tools));
    command.env("HOME", source.place.path("somewhere/else"));
    as_its_user(&source, &command).expect(0);
}

#[test]
fn where_nothing_can_be_masked_a_directory_with_a_token_is_left_out_and_named() {
    let source = with_tools();
    let home = source.place.path("");
    let some = "! flyer; test \"$(puller)\" = 'pulumi works'; test \"$(mine)\" = 'mine works'";
    let ran = run(&source, &["--weak"], &searching(&home, some));
    assert_eq!(went(&ran), Some(0), "{}", ran.out);
    let said = "is not seen inside";
    assert!(
        ran.err.contains(said) && ran.err.contains("`read_paths`"),
        "{}",
        ran.err
    );
    // It is shown to whoever names it.
    let open = home.join(".fly/lib/keys");
    write(
        &source.place.path("config/cto/harness.yaml"),
        &format!(
            "schema: cto.harness/v1\nread_paths: [{:?}]\n",
            open.display().to_string()
        ),
    );
    let script = format!(
        "grep -q SECRET {}/id; mkdir -p src; echo new > src/a.txt",
        open.display()
    );
    for flags in [&["--weak"][..], &[]] {
        let ran = run(&source, flags, &script);
        assert_eq!(went(&ran), Some(0), "{flags:?} {}", ran.out);
    }
}

/// How the agent's own program ended.
fn went(ran: &Ran) -> Option<i64> {
    ran.json()["backend_exit_code"].as_i64()
}

#[test]
fn an_environment_works_whose_python_lies_elsewhere() {
    let source = plain();
    let home = source.place.path("");
    let python = crate::place::search_path();
    let python = Path::new(python.split(':').next().unwrap()).join("python3");
    sh(
        &home,
        &format!("{} -m venv --without-pip env", python.display()),
    );
    // What only this environment has, and what its interpreter brings.
    sh(
        &home,
        "echo 'x = 7' > $(echo env/lib/python3*/site-packages)/only_here.py",
    );
    let mut command = source.command(&[
        "sh",
        "-ec",
        "python -c 'import only_here, json, sys; assert sys.prefix != sys.base_prefix'; echo new > src/a.txt",
    ]);
    command.env("PATH", format!("{}/env/bin:/usr/bin:/bin", home.display()));
    Ran::of(command.output().unwrap()).expect(0);
}
