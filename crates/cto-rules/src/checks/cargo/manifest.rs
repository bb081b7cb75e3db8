//! Which package of a tree a call of cargo tests, and where a test can be planted in it.

use super::super::canary::{EntryKind, NoPlan, TreeFacts, beneath, join, parent};
use super::super::settings::Settings;

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
        let mut found = Vec::new();
        let mut without_library = None;
        for dir in self.candidates(&root, &manifest, facts)? {
            let Some(package) = self.fits(&dir, facts)? else {
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

    fn fits(&self, dir: &str, facts: &TreeFacts) -> Result<Option<Package>, NoPlan> {
        let Some(text) = facts.text(&join(dir, "Cargo.toml"))? else {
            return Ok(None);
        };
        let manifest = Settings::toml(text);
        let Some(name) = manifest.text("package.name") else {
            return Ok(None);
        };
        let named = |specs: &[String]| specs.iter().any(|s| is_spec_of(s, name));
        if named(&self.excluded) || !(self.named.is_empty() || named(&self.named)) {
            return Ok(None);
        }
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
}

/// Directories that a member pattern stands for: `*` and `?` within one name.
fn expanded(root: &str, member: &str, facts: &TreeFacts) -> Result<Vec<String>, NoPlan> {
    let mut found = vec![root.to_owned()];
    for part in beneath(member)?.split('/').filter(|p| !p.is_empty()) {
        let mut next = Vec::new();
        for dir in found {
            if !part.contains(['*', '?', '[']) {
                next.push(join(&dir, part));
                continue;
            }
            let entries = facts.list(&dir)?.iter();
            let dirs = entries.filter(|e| e.kind == EntryKind::Directory);
            let fitting = dirs.filter(|e| !e.name.starts_with('.') && is_match(part, &e.name));
            next.extend(fitting.map(|e| join(&dir, &e.name)));
        }
        found = next;
    }
    Ok(found)
}

/// Whether a package specification means this name: `name`, `name@1.2.3`, `na*`.
fn is_spec_of(spec: &str, name: &str) -> bool {
    let spec = spec.rsplit_once('#').map_or(spec, |(_, s)| s);
    let spec = spec.split(['@', ':']).next().unwrap_or(spec);
    is_match(spec, name)
}

/// Matches `*` and `?` over characters.
fn is_match(pattern: &str, name: &str) -> bool {
    let mut rest = name;
    let mut parts = pattern.split('*').peekable();
    let mut is_first = true;
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let fits_at = |text: &str| -> Option<usize> {
            let mut chars = text.char_indices();
            for p in part.chars() {
                let (_, c) = chars.next()?;
                if p != '?' && p != c {
                    return None;
                }
            }
            Some(chars.next().map_or(text.len(), |(i, _)| i))
        };
        let starts = rest
            .char_indices()
            .map(|(i, _)| i)
            .chain([rest.len()])
            .filter(|i| !is_first || *i == 0);
        let found = starts
            .filter_map(|i| fits_at(&rest[i..]).map(|n| i + n))
            .find(|end| !is_last || *end == rest.len());
        match found {
            Some(end) => rest = &rest[end..],
            None => return false,
        }
        is_first = false;
    }
    rest.is_empty() || pattern.ends_with('*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("*b", "abb", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("a?c", "abc", true),
            ("*", "", true),
            ("x*y*z", "x1y2z", true),
        ] {
            assert_eq!(is_match(pattern, name), fits, "{pattern} {name}");
        }
        assert!(is_spec_of("a@1.0", "a") && !is_spec_of("a", "b"));
    }
}
