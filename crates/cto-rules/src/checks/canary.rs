//! A test that must fail: what to plant, where, and which line shows that the runner saw it.
//!
//! Where it goes can depend on the tree. The rules never look for themselves: they name the one thing they miss, the
//! caller looks it up beneath the tree without following links, and asks again.

use std::collections::BTreeMap;

/// How many files and directories are looked at for one plan.
const FACTS_MAX: usize = 2_000;

/// A canary: what to plant and the call that must find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanaryPlan {
    /// One for each process that runs tests, as far as these are known. Each holds one test, which must fail.
    pub files: Vec<Planted>,
    pub command: String,
    /// Name of the planted test, to leave it out of the count.
    pub test_name: String,
    pub(super) failure: FailureLine,
}

impl CanaryPlan {
    /// Whether the output tells that every planted test ran and failed.
    pub fn is_told(&self, output: &str) -> bool {
        let failed = output.lines().filter(|line| {
            line.find(&self.failure.mark)
                .is_some_and(|at| line[at..].contains(&self.failure.name))
        });
        !self.files.is_empty() && failed.count() >= self.files.len()
    }
}

/// A file that is new to the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planted {
    /// Relative to the tree.
    pub path: String,
    pub content: String,
}

/// How the runner writes that the planted test failed: this mark, and on the same line after it the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailureLine {
    pub(super) mark: String,
    pub(super) name: String,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPlan {
    /// This is to be looked up first.
    Needs(Wanted),
    /// It cannot be planted, for this reason.
    Because(String),
}

impl NoPlan {
    pub(super) fn because<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self::Because(why.into()))
    }
}

/// Something about the tree. Paths are relative to it; its top is the empty path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// The beginning of a small text file.
    Text(String),
    /// What is in a directory.
    List(String),
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub kind: EntryKind,
}

/// What a name stands for, without following it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    Other,
}

/// What was looked up so far. A file that is missing has no text, a directory that is missing is empty.
#[derive(Debug, Clone, Default)]
pub struct TreeFacts {
    texts: BTreeMap<String, Option<String>>,
    lists: BTreeMap<String, Vec<Entry>>,
}

impl TreeFacts {
    pub fn learn_text(&mut self, path: String, text: Option<String>) {
        self.texts.insert(path, text);
    }

    pub fn learn_list(&mut self, dir: String, mut entries: Vec<Entry>) {
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        self.lists.insert(dir, entries);
    }

    pub(super) fn text(&self, path: &str) -> Result<Option<&str>, NoPlan> {
        match self.texts.get(path) {
            Some(text) => Ok(text.as_deref()),
            None => Err(self.missing(Wanted::Text(path.to_owned()))),
        }
    }

    pub(super) fn list(&self, dir: &str) -> Result<&[Entry], NoPlan> {
        match self.lists.get(dir) {
            Some(entries) => Ok(entries),
            None => Err(self.missing(Wanted::List(dir.to_owned()))),
        }
    }

    /// What a path stands for; none when nothing is there.
    pub(super) fn kind(&self, path: &str) -> Result<Option<EntryKind>, NoPlan> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name.is_empty() {
            return Ok(Some(EntryKind::Directory));
        }
        let entries = self.list(dir)?;
        Ok(entries.iter().find(|e| e.name == name).map(|e| e.kind))
    }

    /// Refuses what is not a directory of the tree all the way down: nothing is planted through a link.
    pub(super) fn insist_directory(&self, path: &str) -> Result<(), NoPlan> {
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            if self.kind(&path[..end])? != Some(EntryKind::Directory) {
                return NoPlan::because(format!("`{}` is no directory of the tree", &path[..end]));
            }
        }
        Ok(())
    }

    fn missing(&self, wanted: Wanted) -> NoPlan {
        if self.texts.len() + self.lists.len() >= FACTS_MAX {
            return NoPlan::Because(format!(
                "no place for it was found in {FACTS_MAX} files and directories"
            ));
        }
        NoPlan::Needs(wanted)
    }
}

/// A path of a command line as a path beneath the tree, without `.`; refused when it leads out of it.
pub(super) fn beneath(path: &str) -> Result<String, NoPlan> {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|p| !p.is_empty() && *p != ".")
        .collect();
    if path.starts_with('/') || parts.contains(&"..") {
        return NoPlan::because(format!("`{path}` does not lie beneath the tree"));
    }
    Ok(parts.join("/"))
}

/// A name inside a directory, whose path may be empty.
pub(super) fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() {
        name.to_owned()
    } else {
        format!("{dir}/{name}")
    }
}

/// The directory of a path beneath the tree.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_out_is_refused() {
        assert_eq!(beneath("./a//b/").unwrap(), "a/b");
        assert_eq!(beneath(".").unwrap(), "");
        assert!(beneath("../a").is_err());
        assert!(beneath("a/../../b").is_err());
        assert!(beneath("/a").is_err());
    }

    #[test]
    fn looking_ends_by_itself() {
        let mut facts = TreeFacts::default();
        for n in 0..FACTS_MAX {
            let Err(NoPlan::Needs(Wanted::Text(path))) = facts.text(&n.to_string()) else {
                panic!("{n} was not asked for");
            };
            facts.learn_text(path, None);
        }
        assert!(matches!(facts.text("more"), Err(NoPlan::Because(_))));
    }

    #[test]
    fn only_a_failure_of_that_very_test_is_told() {
        let plan = CanaryPlan {
            files: vec![
                Planted {
                    path: String::new(),
                    content: String::new(),
                };
                2
            ],
            command: String::new(),
            test_name: String::new(),
            failure: FailureLine {
                mark: "FAILED ".into(),
                name: "::t_abc".into(),
            },
        };
        let told = "x\nFAILED a.py::t_abc - no\n";
        assert!(plan.is_told(&told.repeat(2)));
        assert!(!plan.is_told(told), "one of two is not enough");
        assert!(!plan.is_told(&"FAILED a.py::other\na.py::t_abc\n".repeat(2)));
        assert!(!plan.is_told(&"a.py::t_abc FAILED \n".repeat(2)));
    }
}
