//! Which package of a tree a call of cargo tests, and where a test can be planted in it.

use super::super::canary::{EntryKind, NoPlan, TreeFacts, beneath, join, parent};
use super::super::settings::Settings;
use crate::paths::LonePattern;

/// Each takes one more program to build.
const PACKAGES_MAX: usize = 32;

/// The packages that a call chooses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) named: Vec<String>,
    pub(super) excluded: Vec<String>,
    pub(super) workspace: bool,
    pub(super) manifest: Option<String>,
}

/// A package that takes one more integration test.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) dir: String,
    /// Name of the library that a test can link.
    pub(super) library: Option<String>,
}

impl Selection {
    /// The chosen packages with a library; without any, the first that fits.
    pub(super) fn packages(&self, facts: &TreeFacts) -> Result<Vec<Package>, NoPlan> {
        let root = match &self.manifest {
            Some(path) => parent(&beneath(path)?).to_owned(),
            None => String::new(),
        };
        let Some(manifest) = facts.text(&join(&root, "Cargo.toml"))? else {
            return NoPlan::because("there is no Cargo.toml where cargo would look first");
        };
        let manifest = Settings::toml(manifest);
        let (named, excluded) = (specs(&self.named), specs(&self.excluded));
        let is_chosen = |name: &str| {
            let fits = |specs: &[LonePattern]| specs.iter().any(|s| s.matches(name));
            !fits(&excluded) && (self.named.is_empty() || fits(&named))
        };
        let mut found = Vec::new();
        let mut without_library = None;
        for dir in self.candidates(&root, &manifest, facts)? {
            let Some(package) = package(&dir, facts, is_chosen)? else {
                continue;
            };
            if package.library.is_some() {
                found.push(package);
            } else {
                without_library.get_or_insert(package);
            }
            if found.len() >= PACKAGES_MAX {
                break;
            }
        }
        if found.is_empty() {
            found.extend(without_library);
        }
        if found.is_empty() {
            return NoPlan::because("no chosen package finds a new file in its `tests` by itself");
        }
        Ok(found)
    }

    /// Directories of the packages that may be meant, the likeliest first.
    fn candidates(
        &self,
        root: &str,
        manifest: &Settings,
        facts: &TreeFacts,
    ) -> Result<Vec<String>, NoPlan> {
        let mut out = Vec::new();
        let all = self.workspace || !self.named.is_empty();
        let default = manifest.list("workspace.default-members").filter(|_| !all);
        let is_package = manifest.has("package");
        if is_package && default.is_none() {
            out.push(root.to_owned());
            if !all {
                return Ok(out);
            }
        }
        let members = manifest.list("workspace.members").unwrap_or_default();
        let outside = manifest.list("workspace.exclude").unwrap_or_default();
        for member in default.unwrap_or(members) {
            for dir in expanded(root, member, facts)? {
                let excluded = outside
                    .iter()
                    .any(|o| join(root, o.trim_end_matches('/')) == dir);
                if !excluded && !out.contains(&dir) {
                    out.push(dir);
                }
            }
        }
        Ok(out)
    }
}

/// The package of a directory, when it is chosen and takes a test.
fn package(
    dir: &str,
    facts: &TreeFacts,
    is_chosen: impl Fn(&str) -> bool,
) -> Result<Option<Package>, NoPlan> {
    let Some(text) = facts.text(&join(dir, "Cargo.toml"))? else {
        return Ok(None);
    };
    let manifest = Settings::toml(text);
    let Some(name) = manifest.text("package.name").filter(|n| is_chosen(n)) else {
        return Ok(None);
    };
    // Before the edition 2018 one named test turns the search for others off.
    let edition = manifest.text("package.edition").unwrap_or("2015");
    let searches = match manifest.flag("package.autotests") {
        Some(value) => value,
        None => edition != "2015" || !manifest.has("test"),
    };
    let tests = facts.kind(&join(dir, "tests"))?;
    if !searches || !matches!(tests, None | Some(EntryKind::Directory)) {
        return Ok(None);
    }
    let types = ["lib.crate-type", "lib.crate_type"]
        .iter()
        .find_map(|k| manifest.list(k));
    let linkable = types.is_none_or(|t| t.iter().any(|t| ["lib", "rlib"].contains(t)))
        && manifest.flag("lib.proc-macro") != Some(true);
    let has_library =
        manifest.has("lib") || facts.kind(&join(dir, "src/lib.rs"))? == Some(EntryKind::File);
    let library = manifest.text("lib.name").unwrap_or(name).replace('-', "_");
    let is_identifier = library
        .chars()
        .all(|c| c == '_' || c.is_ascii_alphanumeric());
    Ok(Some(Package {
        dir: dir.to_owned(),
        library: (linkable && has_library && is_identifier).then_some(library),
    }))
}

/// Directories that a member pattern stands for. A wildcard stays within one name and means none that is hidden.
fn expanded(root: &str, member: &str, facts: &TreeFacts) -> Result<Vec<String>, NoPlan> {
    let mut found = vec![root.to_owned()];
    for part in beneath(member)?.split('/').filter(|p| !p.is_empty()) {
        let pattern = part
            .contains(['*', '?', '['])
            .then(|| part.parse().map(|p| LonePattern::new(&p)));
        let mut next = Vec::new();
        for dir in found {
            match &pattern {
                None => next.push(join(&dir, part)),
                Some(Err(_)) => {}
                Some(Ok(pattern)) => {
                    let entries = facts.list(&dir)?.iter();
                    let dirs = entries.filter(|e| e.kind == EntryKind::Directory);
                    let seen = dirs.filter(|e| !e.name.starts_with('.'));
                    let fitting = seen.filter(|e| pattern.matches(&e.name));
                    next.extend(fitting.map(|e| join(&dir, &e.name)));
                }
            }
        }
        found = next;
    }
    Ok(found)
}

/// The names that package specifications mean: `name`, `name@1.2.3`, `na*`.
fn specs(specs: &[String]) -> Vec<LonePattern> {
    let names = specs.iter().map(|spec| {
        let spec = spec.rsplit_once('#').map_or(spec.as_str(), |(_, s)| s);
        spec.split(['@', ':']).next().unwrap_or(spec)
    });
    let patterns = names.filter_map(|name| name.parse().ok());
    patterns.map(|p| LonePattern::new(&p)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_means_whole_names() {
        for (spec, name, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "abb", true),
            ("a*c", "abcd", false),
            ("a?c", "abc", true),
            ("[ab]c", "bc", true),
            ("x*y*z", "x1y2z", true),
            ("a@1.0", "a", true),
            ("https://example.org/r#a@1.0", "a", true),
            ("[a", "[a", false),
        ] {
            let means = specs(&[spec.to_owned()]).iter().any(|s| s.matches(name));
            assert_eq!(means, fits, "{spec} {name}");
        }
    }
}
