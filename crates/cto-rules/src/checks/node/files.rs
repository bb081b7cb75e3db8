//! The test files that a call of `node --test` runs.

use super::super::canary::{EntryKind, NoPlan, TreeFacts, beneath, join};

/// How many directories are searched.
const DIRECTORIES_MAX: usize = 300;
/// How many files get a planted test.
const FILES_MAX: usize = 64;

/// The files of a call, in order; those that end their process by themselves are left out.
///
/// Files that a pattern stands for are not looked for: then nothing is known, and none are given.
pub(super) fn find(named: &[String], facts: &TreeFacts) -> Result<Vec<String>, NoPlan> {
    let mut found = Vec::new();
    let mut queue = Vec::new();
    if named.is_empty() {
        queue.push(String::new());
    }
    for path in named {
        if path.contains(['*', '?', '[', '{', '!']) {
            return Ok(Vec::new());
        }
        let path = beneath(path)?;
        match facts.kind(&path)? {
            Some(EntryKind::File) => found.push(path),
            Some(EntryKind::Directory) => queue.push(path),
            Some(EntryKind::Other) | None => {}
        }
    }
    let mut searched = 0;
    while let Some(dir) = queue.pop() {
        searched += 1;
        if searched > DIRECTORIES_MAX {
            break;
        }
        let entries = facts.list(&dir)?;
        for entry in entries {
            let path = join(&dir, &entry.name);
            if entry.kind == EntryKind::File && is_test(&path) {
                found.push(path);
            }
        }
        let below = entries.iter().rev();
        let below = below.filter(|e| e.kind == EntryKind::Directory);
        let below = below.filter(|e| e.name != "node_modules" && !e.name.starts_with('.'));
        queue.extend(below.map(|e| join(&dir, &e.name)));
    }
    found.truncate(FILES_MAX);
    let mut out = Vec::new();
    for path in found {
        let text = facts.text(&path)?.unwrap_or("");
        if !text.contains("process.exit") {
            out.push(path);
        }
    }
    Ok(out)
}

/// Whether a search takes a file for a test, by its name or because it lies below `test`.
fn is_test(path: &str) -> bool {
    let (dirs, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Some((stem, extension)) = name.rsplit_once('.') else {
        return false;
    };
    ["js", "cjs", "mjs"].contains(&extension)
        && (dirs.split('/').any(|d| d == "test")
            || stem == "test"
            || stem.starts_with("test-")
            || [".test", "-test", "_test"]
                .iter()
                .any(|s| stem.ends_with(s)))
}
