//! The settings of a project that decide what pytest collects.

use super::super::call::words;
use super::super::canary::{NoPlan, TreeFacts, beneath, join, parent};
use super::super::settings::Settings;

/// Where pytest looks, in its order: the file, and the section that makes it count.
const FILES: &[(&str, &str)] = &[
    ("pytest.toml", "pytest"),
    (".pytest.toml", "pytest"),
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("pyproject.toml", "tool.pytest.ini_options"),
    ("pyproject.toml", "tool.pytest"),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) addopts: Vec<String>,
    pub(super) testpaths: Vec<String>,
    /// Patterns of files and functions that hold tests; empty for pytest's own.
    pub(super) files: Vec<String>,
    pub(super) functions: Vec<String>,
}

impl Config {
    /// Takes over what a call sets by `-o name=value`.
    pub(super) fn set(&mut self, setting: &str) {
        let Some((name, value)) = setting.split_once('=') else {
            return;
        };
        let place = match name.trim() {
            "addopts" => &mut self.addopts,
            "testpaths" => &mut self.testpaths,
            "python_files" => &mut self.files,
            "python_functions" => &mut self.functions,
            _ => return,
        };
        *place = split(value);
    }

    /// The settings in force for a call that begins at `dir`.
    pub(super) fn find(named: Option<&str>, dir: &str, facts: &TreeFacts) -> Result<Self, NoPlan> {
        if let Some(named) = named {
            let path = beneath(named)?;
            let text = facts.text(&path)?.unwrap_or("");
            let sections = [
                "pytest",
                "tool.pytest.ini_options",
                "tool.pytest",
                "tool:pytest",
            ];
            let found = sections.iter().find_map(|s| Self::read(&path, s, text));
            return Ok(found.unwrap_or_default());
        }
        let mut dir = dir;
        loop {
            for (name, section) in FILES {
                let path = join(dir, name);
                let found = facts
                    .text(&path)?
                    .and_then(|t| Self::read(name, section, t));
                if let Some(found) = found {
                    return Ok(found);
                }
            }
            if dir.is_empty() {
                return Ok(Self::default());
            }
            dir = parent(dir);
        }
    }

    fn read(name: &str, section: &str, text: &str) -> Option<Self> {
        let settings = if name.ends_with(".toml") {
            Settings::toml(text)
        } else {
            Settings::ini(text)
        };
        let is_own = name.ends_with("pytest.ini") || name.ends_with("pytest.toml");
        if !settings.has(section) && !is_own {
            return None;
        }
        let values = |key: &str| {
            let key = format!("{section}.{key}");
            match settings.list(&key) {
                Some(list) => list.into_iter().map(str::to_owned).collect(),
                None => split(settings.text(&key).unwrap_or("")),
            }
        };
        Some(Self {
            addopts: values("addopts"),
            testpaths: values("testpaths"),
            files: values("python_files"),
            functions: values("python_functions"),
        })
    }
}

/// Words as a shell would split them, where that is plain.
fn split(text: &str) -> Vec<String> {
    let text = text.replace('\n', " ");
    words(&text).unwrap_or_else(|| {
        let bare = text.split_whitespace();
        bare.map(|w| w.trim_matches(['"', '\'']).to_owned())
            .collect()
    })
}
