use super::*;

#[test]
fn a_file_is_known_by_its_first_bytes() {
    let told = |head: &[u8]| match kind_of(head) {
        ProgramKind::Native => "native".to_owned(),
        ProgramKind::Other => "other".to_owned(),
        ProgramKind::Script(Interpreter::At(path)) => format!("at {}", path.display()),
        ProgramKind::Script(Interpreter::Named(name)) => format!("named {name}"),
    };
    let table: [(&[u8], &str); 14] = [
        (b"\x7fELF\x02\x01", "native"),
        (b"#!/usr/bin/env node\nimport x", "named node"),
        (b"#! /usr/bin/env   node", "named node"),
        (b"#!/usr/bin/env -S node --no-warnings\n", "named node"),
        (b"#!/usr/bin/env -S A=b node\n", "named node"),
        (b"#!/usr/bin/env /opt/node\n", "at /opt/node"),
        (
            b"#!/home/you/venvs/aider/bin/python\n",
            "at /home/you/venvs/aider/bin/python",
        ),
        (b"#!/bin/sh -e\n", "at /bin/sh"),
        (b"#!/bin/sh\r\n", "at /bin/sh"),
        (b"#!node\n", "other"),
        (b"#!/usr/bin/env\n", "other"),
        (b"#!", "other"),
        (b"echo \"Error\" >&2\n", "other"),
        (b"", "other"),
    ];
    for (head, wanted) in table {
        assert_eq!(told(head), wanted, "{}", String::from_utf8_lossy(head));
    }
    assert!(Interpreter::At("/bin/sh".into()).is_shell());
    assert!(Interpreter::Named("node".to_owned()).is_node());
    assert!(!Interpreter::Named("python3".to_owned()).is_shell());
}

#[test]
fn a_package_is_found_in_every_layout_of_npm_and_its_kin() {
    let told = |path: &str| {
        package_of(Path::new(path))
            .map(|p| format!("{} {} {}", p.name, p.root.display(), p.top.display()))
    };
    let table = [
        // Global, and of one version of nvm.
        (
            "/usr/lib/node_modules/@openai/codex/bin/codex.js",
            "@openai/codex /usr/lib/node_modules/@openai/codex /usr/lib/node_modules",
        ),
        (
            "/h/.nvm/versions/node/v24/lib/node_modules/pi/cli.js",
            "pi /h/.nvm/versions/node/v24/lib/node_modules/pi /h/.nvm/versions/node/v24/lib/node_modules",
        ),
        // In a project, and nested.
        (
            "/p/node_modules/a/node_modules/@s/b/x.js",
            "@s/b /p/node_modules/a/node_modules/@s/b /p/node_modules",
        ),
        // pnpm.
        (
            "/p/node_modules/.pnpm/pi@1/node_modules/pi/x.js",
            "pi /p/node_modules/.pnpm/pi@1/node_modules/pi /p/node_modules",
        ),
    ];
    for (path, wanted) in table {
        assert_eq!(told(path).as_deref(), Some(wanted), "{path}");
    }
    for none in [
        "/usr/bin/codex",
        "/p/node_modules/.bin/codex",
        "/p/node_modules/x",
        "/p/node_modules/@s/x",
        "/",
    ] {
        assert_eq!(told(none), None, "{none}");
    }
}

#[test]
fn the_binary_behind_a_script_is_looked_for_beside_it_and_below_it() {
    let found = |lane: Lane, path: &str, machine: &str| {
        let package = package_of(Path::new(path)).unwrap();
        let all = natives(lane, &package, machine);
        all.iter()
            .map(|p| p.display().to_string())
            .collect::<Vec<_>>()
    };
    let codex = found(
        Lane::Codex,
        "/n/node_modules/@openai/codex/bin/codex.js",
        "x86_64",
    );
    assert_eq!(
        codex[0],
        "/n/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
    );
    assert!(codex.contains(&"/n/node_modules/@openai/codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex".to_owned()));
    let claude = found(
        Lane::Claude,
        "/n/node_modules/@anthropic-ai/claude-code/bin/claude.exe",
        "aarch64",
    );
    assert_eq!(
        claude[0],
        "/n/node_modules/@anthropic-ai/claude-code-linux-arm64/claude"
    );
    assert_eq!(
        found(Lane::Codex, "/n/node_modules/codex/x.js", "x86_64"),
        Vec::<String>::new(),
        "another package of that name"
    );
    assert_eq!(
        found(
            Lane::Pi,
            "/n/node_modules/@earendil-works/pi-coding-agent/dist/cli.js",
            "x86_64"
        ),
        Vec::<String>::new()
    );
}

#[test]
fn a_shim_of_volta_leads_to_the_package_that_it_would_start() {
    let found = |lane: Lane, named: &str, real: &str| {
        let all = behind_shim(lane, Path::new(named), Path::new(real));
        all.iter()
            .map(|p| p.display().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found(
            Lane::Codex,
            "/h/.volta/bin/codex",
            "/h/.volta/bin/volta-shim"
        ),
        ["/h/.volta/tools/image/packages/@openai/codex/bin/codex"]
    );
    assert!(found(Lane::Codex, "/h/bin/codex", "/h/bin/codex").is_empty());
}

#[test]
fn what_is_said_about_a_program_names_what_to_set() {
    for problem in [
        ProgramProblem::Missing,
        ProgramProblem::LeadsNowhere,
        ProgramProblem::NotAFile,
        ProgramProblem::NotExecutable,
        ProgramProblem::ClosedToOthers,
        ProgramProblem::ShellScript,
        ProgramProblem::NoProgram,
        ProgramProblem::NativeMissing,
        ProgramProblem::InterpreterMissing("node".to_owned()),
        ProgramProblem::Refused("it holds a socket".to_owned()),
    ] {
        let text = format!("{problem}; {}", remedy(Lane::Codex, &problem));
        assert!(text.contains("CTO_HARNESS_CODEX_BIN"), "{text}");
    }
    let refused = remedy(Lane::Pi, &ProgramProblem::Refused(String::new()));
    assert!(refused.contains("`read_paths`"), "{refused}");
}
