//! Which files of the tree a command line starts or reads its targets from. A guess that rather names one too many.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::project::ProjectTree;

/// Programs that take what to do from a file of their own.
const DRIVERS: &[(&str, &[&str])] = &[
    ("make", &["GNUmakefile", "makefile", "Makefile"]),
    ("gmake", &["GNUmakefile", "makefile", "Makefile"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("npm", &["package.json"]),
    ("pnpm", &["package.json"]),
    ("yarn", &["package.json"]),
    ("bun", &["package.json"]),
    ("rake", &["Rakefile"]),
    ("task", &["Taskfile.yml", "Taskfile.yaml"]),
    ("tox", &["tox.ini", "pyproject.toml", "setup.cfg"]),
    ("nox", &["noxfile.py"]),
    ("bazel", &["WORKSPACE", "MODULE.bazel", ".bazelrc"]),
    ("gradle", &["build.gradle", "build.gradle.kts"]),
    ("mvn", &["pom.xml"]),
];

/// Files that the command names, as paths of the tree.
pub(super) fn named_files(command: &str, tree: &ProjectTree) -> BTreeSet<String> {
    let mut search = Search {
        tree,
        found: BTreeSet::new(),
        followed: BTreeSet::new(),
    };
    search.command(command);
    search.found
}

struct Search<'a> {
    tree: &'a ProjectTree,
    found: BTreeSet<String>,
    /// Scripts of package.json that were looked at: each once, whoever calls whom.
    followed: BTreeSet<String>,
}

impl Search<'_> {
    fn command(&mut self, command: &str) {
        let mut scripts = Vec::new();
        let mut here = String::new();
        for simple in command.split([';', '|', '&', '\n', '(', ')', '{', '}', '`']) {
            let words: Vec<&str> = simple
                .split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | ','))
                .filter(|w| !w.is_empty())
                .collect();
            let Some(at) = words.iter().position(|w| !w.contains('=')) else {
                continue;
            };
            let (program, arguments) = (base_name(words[at]), &words[at + 1..]);
            if program == "cd" {
                if let Some(path) = arguments.first().and_then(|to| joined(&here, to)) {
                    here = path;
                }
                continue;
            }
            let mut take = |name: &str| {
                if let Some(path) = joined(&here, name).filter(|p| self.tree.has(p)) {
                    self.found.insert(path);
                }
            };
            for word in &words {
                word.split('=').for_each(&mut take);
            }
            for directory in ["-C", "--prefix", "--directory"] {
                let given = arguments.iter().position(|w| *w == directory);
                let given = given.and_then(|at| arguments.get(at + 1));
                for file in driver_files(program) {
                    take(&given.map_or((*file).to_owned(), |d| format!("{d}/{file}")));
                }
            }
            if let Some(module) = python_module(program, arguments) {
                let module = module.replace('.', "/");
                take(&format!("{module}.py"));
                take(&format!("{module}/__main__.py"));
            }
            if here.is_empty() && driver_files(program).contains(&"package.json") {
                scripts.extend(package_script(arguments));
            }
        }
        for script in scripts {
            if self.followed.insert(script.to_owned()) {
                for text in package_scripts(self.tree, script) {
                    self.command(&text);
                }
            }
        }
    }
}

fn driver_files(program: &str) -> &'static [&'static str] {
    DRIVERS
        .iter()
        .find(|(name, _)| *name == program)
        .map_or(&[], |(_, files)| files)
}

/// Joins by the letter; none when the result lies outside the tree.
fn joined(directory: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut out: Vec<&str> = Vec::new();
    for component in directory.split('/').chain(path.split('/')) {
        match component {
            "" | "." => {}
            ".." => {
                out.pop()?;
            }
            name => out.push(name),
        }
    }
    Some(out.join("/"))
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn python_module<'a>(program: &str, arguments: &[&'a str]) -> Option<&'a str> {
    if !program.starts_with("python") {
        return None;
    }
    let at = arguments.iter().position(|w| *w == "-m")?;
    arguments.get(at + 1).copied()
}

/// The script that a call of a package manager runs.
fn package_script<'a>(arguments: &[&'a str]) -> Option<&'a str> {
    let mut words = arguments.iter().copied().filter(|w| !w.starts_with('-'));
    match words.next()? {
        "run" | "run-script" => words.next(),
        "t" | "tst" => Some("test"),
        other => Some(other),
    }
}

/// The texts of a script and of those that run before and after it.
fn package_scripts(tree: &ProjectTree, name: &str) -> Vec<String> {
    let Ok(package) = serde_json::from_str::<Value>(tree.text("package.json")) else {
        return Vec::new();
    };
    [format!("pre{name}"), name.to_owned(), format!("post{name}")]
        .iter()
        .filter_map(|key| package["scripts"][key.as_str()].as_str())
        .map(str::to_owned)
        .collect()
}
