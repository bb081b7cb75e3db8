//! Programs as people install them, one layout after the other, on a real file system.

use std::os::unix::fs::symlink;

use super::*;

/// A home with files in it.
struct Machine {
    dir: tempfile::TempDir,
}

const ELF: &str = "\u{7f}ELF and more";
const NODE_SCRIPT: &str = "#!/usr/bin/env node\nimport 'x';\n";

impl Machine {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join(name)
    }

    fn file(&self, name: &str, text: &str, mode: u32) {
        use std::io::Write as _;
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = File::create_new(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn link(&self, name: &str, to: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, path).unwrap();
    }

    fn env(&self, path: &[&str], named: Option<(&str, &str)>) -> Environment {
        let path: Vec<String> = path
            .iter()
            .map(|dir| self.path(dir).display().to_string())
            .collect();
        let named =
            named.map(|(name, file)| (name.to_owned(), self.path(file).display().to_string()));
        let pairs = [("PATH".to_owned(), path.join(":"))];
        Environment::new(pairs.into_iter().chain(named))
    }

    /// What a lane finds, with this home left out.
    fn found(&self, lane: Lane, path: &[&str]) -> String {
        self.told(find(&self.env(path, None), lane))
    }

    fn told(&self, found: Result<InstalledProgram, Fault>) -> String {
        let text = match found {
            Ok(found) => {
                let packages: Vec<String> = found
                    .places
                    .packages
                    .iter()
                    .map(|p| p.display().to_string())
                    .collect();
                format!("{} | {}", found.command().join(" "), packages.join(" "))
            }
            Err(Fault::ProgramUnusable { problem, .. }) => format!("{problem:?}"),
            Err(other) => format!("{other:?}"),
        };
        text.replace(
            &format!(
                "{}/",
                self.path("").display().to_string().trim_end_matches('/')
            ),
            "",
        )
    }
}

fn native(modules: &str) -> String {
    let triple = match std::env::consts::ARCH {
        "aarch64" => "arm64/vendor/aarch64-unknown-linux-musl",
        _ => "x64/vendor/x86_64-unknown-linux-musl",
    };
    format!("{modules}/@openai/codex-linux-{triple}/bin/codex")
}

/// Codex as npm lays it out.
fn with_codex(machine: &Machine, modules: &str) {
    machine.file(
        &format!("{modules}/@openai/codex/bin/codex.js"),
        NODE_SCRIPT,
        0o755,
    );
    machine.file(&native(modules), ELF, 0o755);
}

fn root_of(native: &str) -> String {
    native.split("/vendor").next().unwrap().to_owned()
}

#[test]
fn the_binary_of_codex_is_found_in_every_layout_of_npm() {
    // Global or `--prefix`, nvm, a project's own, pnpm, and the shim of volta.
    for (modules, bin, to) in [
        (
            "usr/lib/node_modules",
            "usr/bin/codex",
            "../lib/node_modules/@openai/codex/bin/codex.js",
        ),
        (
            ".nvm/versions/node/v24.1.0/lib/node_modules",
            ".nvm/versions/node/v24.1.0/bin/codex",
            "../lib/node_modules/@openai/codex/bin/codex.js",
        ),
        (
            "p/node_modules",
            "p/node_modules/.bin/codex",
            "../@openai/codex/bin/codex.js",
        ),
        (
            "p/node_modules/.pnpm/c@1/node_modules",
            "p/node_modules/.bin/codex",
            "../.pnpm/c@1/node_modules/@openai/codex/bin/codex.js",
        ),
        (
            ".volta/tools/image/packages/@openai/codex/lib/node_modules",
            ".volta/tools/image/packages/@openai/codex/bin/codex",
            "../lib/node_modules/@openai/codex/bin/codex.js",
        ),
    ] {
        let machine = Machine::new();
        with_codex(&machine, modules);
        machine.link(bin, to);
        let mut directory = Path::new(bin).parent().unwrap().to_str().unwrap();
        if modules.starts_with(".volta") {
            machine.file(".volta/bin/volta-shim", ELF, 0o755);
            machine.link(".volta/bin/codex", "volta-shim");
            directory = ".volta/bin";
        }
        let wanted = format!("{} | {}", native(modules), root_of(&native(modules)));
        assert_eq!(
            machine.found(Lane::Codex, &[directory]),
            wanted,
            "{modules}"
        );
    }
}

#[test]
fn a_link_in_the_local_bin_leads_to_the_version_that_is_installed() {
    let machine = Machine::new();
    machine.file(".local/share/claude/versions/2.1.326", ELF, 0o755);
    machine.link(".local/bin/claude", "../share/claude/versions/2.1.326");
    assert_eq!(
        machine.found(Lane::Claude, &[".local/bin"]),
        ".local/share/claude/versions/2.1.326 | "
    );
    // npm's own stands in for a binary that its package for this machine brings.
    let machine = Machine::new();
    let modules = "lib/node_modules/@anthropic-ai";
    machine.file(
        &format!("{modules}/claude-code/bin/claude.exe"),
        "echo not installed\n",
        0o755,
    );
    machine.link(
        "bin/claude",
        "../lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe",
    );
    assert_eq!(machine.found(Lane::Claude, &["bin"]), "NativeMissing");
}

#[test]
fn a_script_brings_its_interpreter_and_all_that_its_package_loads() {
    let machine = Machine::new();
    let cli = "p/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js";
    machine.file(cli, NODE_SCRIPT, 0o755);
    machine.link(
        "p/node_modules/.bin/pi",
        "../@earendil-works/pi-coding-agent/dist/bundle/cli.js",
    );
    assert_eq!(
        machine.found(Lane::Pi, &["p/node_modules/.bin"]),
        "InterpreterMissing(\"node\")"
    );
    machine.file("usr/bin/node", ELF, 0o755);
    let both = ["p/node_modules/.bin", "usr/bin"];
    assert_eq!(
        machine.found(Lane::Pi, &both),
        format!("usr/bin/node {cli} | p/node_modules")
    );
    // One that was installed beside it is meant for it.
    machine.file("p/node_modules/node/bin/node", ELF, 0o755);
    machine.link("p/node_modules/.bin/node", "../node/bin/node");
    assert_eq!(
        machine.found(Lane::Pi, &["usr/bin", "p/node_modules/.bin"]),
        format!("p/node_modules/.bin/node {cli} | p/node_modules")
    );
}

#[test]
fn a_python_program_brings_the_environment_that_its_shebang_names() {
    // pipx and uv: a link in the local bin, an environment of its own, an interpreter elsewhere.
    let machine = Machine::new();
    let python = machine.path("pipx/venvs/aider/bin/python");
    machine.file("opt/python/bin/python3.12", ELF, 0o755);
    machine.link(
        "pipx/venvs/aider/bin/python",
        "../../../../opt/python/bin/python3.12",
    );
    machine.file(
        "pipx/venvs/aider/bin/aider",
        &format!("#!{}\nimport x\n", python.display()),
        0o755,
    );
    machine.link(".local/bin/aider", "../../pipx/venvs/aider/bin/aider");
    let env = machine.env(&[".local/bin"], None);
    let places = places_of(&env, "aider");
    let named = machine.path(".local/bin/aider");
    assert_eq!(places, places_of(&env, named.to_str().unwrap()));
    for directory in ["pipx/venvs/aider/bin", "opt/python/bin"] {
        assert!(
            places.directories.contains(&machine.path(directory)),
            "{places:?}"
        );
    }
    assert!(places.files.iter().any(|(named, _)| *named == python));
    assert_eq!(places_of(&env, "nothing"), ProgramPlaces::default());
}

#[test]
fn what_can_not_be_started_is_told_apart() {
    let machine = Machine::new();
    machine.link("loop/codex", "codex");
    machine.link("gone/codex", "nothing");
    machine.file("closed/codex", ELF, 0o700);
    machine.file("plain/codex", ELF, 0o644);
    machine.file("shell/codex", "#!/bin/sh\nexec /x/codex \"$@\"\n", 0o755);
    machine.file("text/codex", "hello\n", 0o755);
    for (directory, wanted) in [
        ("loop", "LeadsNowhere"),
        ("gone", "LeadsNowhere"),
        ("closed", "ClosedToOthers"),
        ("plain", "NotExecutable"),
        ("shell", "ShellScript"),
        ("text", "NoProgram"),
    ] {
        let file = format!("{directory}/codex");
        let env = machine.env(&[], Some(("CTO_HARNESS_CODEX_BIN", &file)));
        assert_eq!(machine.told(find(&env, Lane::Codex)), wanted, "{directory}");
    }
    assert_eq!(machine.found(Lane::Codex, &["empty"]), "Missing");
    let relative = Environment::new([("CTO_HARNESS_CODEX_BIN".to_owned(), "codex".to_owned())]);
    assert_eq!(machine.told(find(&relative, Lane::Codex)), "NotAFile");
}
