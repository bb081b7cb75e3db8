//! The files beside a proposed contract, and what to type once they are there.

use cto_contract::words::Lane;

/// What `cto` and its relatives leave in a project, and what must not be committed.
pub const IGNORED: &[&str] = &[
    ".env",
    "cto.db",
    "cto.db-*",
    ".cto-sandbox/",
    ".sandcastle/",
];

/// The lines that an ignore file lacks.
pub fn missing_ignores(bytes: &[u8]) -> Vec<&'static str> {
    let has = |line: &str| {
        let mut lines = bytes.split(|b| *b == b'\n');
        lines.any(|l| l.trim_ascii() == line.as_bytes())
    };
    IGNORED.iter().copied().filter(|line| !has(line)).collect()
}

/// An ignore file with the lines that it lacks; none when it lacks nothing.
pub fn extended_ignore(bytes: &[u8]) -> Option<Vec<u8>> {
    let missing = missing_ignores(bytes);
    if missing.is_empty() {
        return None;
    }
    let mut extended = bytes.to_vec();
    if !extended.is_empty() && !extended.ends_with(b"\n") {
        extended.push(b'\n');
    }
    for line in missing {
        extended.extend_from_slice(line.as_bytes());
        extended.push(b'\n');
    }
    Some(extended)
}

/// An example of the settings that `.env` of the config directory may hold.
pub fn env_example() -> String {
    let lane = Lane::Command;
    let name = |gate: Option<String>| gate.unwrap_or_default();
    format!(
        "# Settings of `cto`, to be copied into `.env` of its config directory (`cto config show` says where). A file of\n\
         # that name in a repository is never read. The environment wins over it. Gates are not set here but in the\n\
         # environment of a call: {}=1 opens the lane for any program, {}=3 lets it work on a copy.\n\
         \n\
         # Where runs and evidence are kept.\n\
         #CTO_HOME=/var/lib/cto\n\
         \n\
         # Or below the home of Hermes, in profiles/cto-planb.\n\
         #HERMES_HOME=/var/lib/hermes\n\
         \n\
         # Who confines runs that name nobody: docker or podman. Without it `cto` does so itself.\n\
         #DEFAULT_SANDCASTLE_PROVIDER=podman\n\
         \n\
         # Names of the organisation and of the repository of sandboxes.\n\
         #GITHUB_ORG=example\n\
         #SANDCASTLE_REPO=example/sandboxes\n",
        name(lane.gate()),
        name(lane.stage_gate()),
    )
}

/// Names of the files that are written.
#[derive(Debug, Clone, Copy)]
pub struct FileNames {
    pub contract: &'static str,
    pub example: &'static str,
    pub ignore: &'static str,
}

/// What to type next, in order. `directory` is the project's, as it was named.
pub fn next_steps(directory: &str, names: FileNames) -> Vec<String> {
    let lane = Lane::Command;
    let gates: Vec<String> = [(lane.gate(), "1"), (lane.stage_gate(), "3")]
        .into_iter()
        .filter_map(|(name, value)| name.map(|n| format!("{n}={value} ")))
        .collect();
    let contract = names.contract;
    let mut steps = Vec::new();
    if directory != "." {
        steps.push(format!("cd {directory}"));
    }
    steps.extend([
        format!("$EDITOR {contract}"),
        format!("cto contract check {contract}"),
        format!(
            "{}cto run --repo . --contract {contract} --engine command --stage 3 -- <agent…>",
            gates.concat()
        ),
        "cto export latest --patch | git apply".to_owned(),
    ]);
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_ignore_file_keeps_what_it_had_and_is_extended_once(bytes in any::<Vec<u8>>()) {
            let extended = extended_ignore(&bytes).unwrap_or_else(|| bytes.clone());
            prop_assert!(extended.starts_with(&bytes));
            prop_assert_eq!(extended_ignore(&extended), None);
        }
    }

    #[test]
    fn only_what_is_missing_is_added() {
        let text = |bytes: &str| {
            let extended = extended_ignore(bytes.as_bytes()).unwrap();
            String::from_utf8(extended).unwrap()
        };
        assert_eq!(
            text(" .env \ncto.db\n*.pyc"),
            " .env \ncto.db\n*.pyc\ncto.db-*\n.cto-sandbox/\n.sandcastle/\n"
        );
        assert_eq!(text(""), format!("{}\n", IGNORED.join("\n")));
    }
}
