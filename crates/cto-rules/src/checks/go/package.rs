//! Finds a package that a call of `go test` covers, and its name.

use super::super::canary::{EntryKind, NoPlan, TreeFacts, beneath, join};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) dir: String,
    /// As its `package` clause says.
    pub(super) name: String,
}

/// How many directories are searched.
const DIRECTORIES_MAX: usize = 300;
/// How many packages are planted in.
const PACKAGES_MAX: usize = 64;

/// The covered packages with tests; without any, the first package.
pub(super) fn find(patterns: &[String], facts: &TreeFacts) -> Result<Vec<Package>, NoPlan> {
    let here = [".".to_owned()];
    let patterns = if patterns.is_empty() { &here } else { patterns };
    let mut found: Vec<Package> = Vec::new();
    let mut untested = None;
    let mut searched = 0;
    for pattern in patterns {
        let (dir, below) = place(pattern, facts)?;
        let mut queue = vec![dir.clone()];
        while let Some(at) = queue.pop() {
            searched += 1;
            if searched > DIRECTORIES_MAX || found.len() >= PACKAGES_MAX {
                break;
            }
            let entries = facts.list(&at)?;
            // Another module is not covered.
            if at != dir && entries.iter().any(|e| e.name == "go.mod") {
                continue;
            }
            let sources: Vec<&str> = entries
                .iter()
                .filter(|e| e.kind == EntryKind::File && e.name.ends_with(".go"))
                .map(|e| e.name.as_str())
                .filter(|n| !n.starts_with(['_', '.']))
                .collect();
            if let Some(name) = package_name(&at, &sources, facts)? {
                let package = Package {
                    dir: at.clone(),
                    name,
                };
                if !sources.iter().any(|s| s.ends_with("_test.go")) {
                    untested.get_or_insert(package);
                } else if !found.contains(&package) {
                    found.push(package);
                }
            }
            if below {
                let dirs = entries
                    .iter()
                    .rev()
                    .filter(|e| e.kind == EntryKind::Directory);
                let below = dirs.filter(|e| {
                    !e.name.starts_with(['_', '.']) && e.name != "testdata" && e.name != "vendor"
                });
                queue.extend(below.map(|e| join(&at, &e.name)));
            }
        }
    }
    if found.is_empty() {
        found.extend(untested);
    }
    if found.is_empty() {
        return NoPlan::because("no package was found that the call covers");
    }
    Ok(found)
}

/// The directory of a package pattern, and whether all below it are meant.
fn place(pattern: &str, facts: &TreeFacts) -> Result<(String, bool), NoPlan> {
    let (path, below) = match pattern.strip_suffix("...") {
        Some(path) => (path.trim_end_matches('/'), true),
        None => (pattern, false),
    };
    if path.contains("...") {
        return NoPlan::because(format!("the pattern `{pattern}` is not understood"));
    }
    if path == "." || path.starts_with("./") {
        return Ok((beneath(path)?, below));
    }
    let module = facts.text("go.mod")?.and_then(module_path);
    let inside = module.and_then(|m| path.strip_prefix(m));
    match inside {
        Some("") => Ok((String::new(), below)),
        Some(rest) if rest.starts_with('/') => Ok((beneath(&rest[1..])?, below)),
        _ => NoPlan::because(format!("`{pattern}` is no package of this tree")),
    }
}

fn module_path(go_mod: &str) -> Option<&str> {
    let line = go_mod
        .lines()
        .find_map(|l| l.trim().strip_prefix("module "))?;
    let path = line.split("//").next()?.trim();
    Some(path.trim_matches(['"', '`']))
}

/// The name in the sources; those that a build constraint may leave out are asked last.
fn package_name(dir: &str, sources: &[&str], facts: &TreeFacts) -> Result<Option<String>, NoPlan> {
    let (tests, plain): (Vec<&str>, Vec<&str>) =
        sources.iter().partition(|s| s.ends_with("_test.go"));
    let mut constrained = None;
    for source in plain.into_iter().chain(tests) {
        let Some((name, is_constrained)) = facts.text(&join(dir, source))?.and_then(clause) else {
            continue;
        };
        if !is_constrained {
            return Ok(Some(name.to_owned()));
        }
        constrained.get_or_insert_with(|| name.to_owned());
    }
    Ok(constrained)
}

/// The package clause of a source, and whether a build constraint stands before it.
fn clause(source: &str) -> Option<(&str, bool)> {
    let mut constrained = false;
    let mut in_comment = false;
    for line in source.lines() {
        let line = line.trim();
        if in_comment || line.starts_with("/*") {
            in_comment = !line.contains("*/");
        } else if line.starts_with("//go:build") || line.starts_with("// +build") {
            constrained = true;
        } else if let Some(rest) = line.strip_prefix("package ") {
            let name = rest.split(['/', ';', ' ', '\t']).next()?;
            let fits = |c: char| c == '_' || c.is_alphanumeric();
            return (!name.is_empty() && name.chars().all(fits)).then_some((name, constrained));
        }
    }
    None
}
