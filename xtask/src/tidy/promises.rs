//! `docs/security.md` promises nothing without a test: every test it names must exist.
//!
//! What counts as a test's name is a snake-case sentence in backticks, `like_this_one` or `cto_rules::gates::like_this_one`.
//! With a path, or after the word "test" on its line or in its column's title, it must be a function. Alone it may also be
//! another word of the code, such as a blocker; a word the code does not know at all is a promise gone stale.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source::code_only;
use crate::workspace::ProjectFile;

const PROMISES: &str = "docs/security.md";
/// Test names are sentences: three words at least.
const UNDERSCORES_MIN: usize = 2;

pub(crate) fn check(files: &[ProjectFile]) -> Vec<Finding> {
    // Its absence is the layout check's finding.
    let Some(document) = files.iter().find(|file| file.path == PROMISES) else {
        return Vec::new();
    };
    let code = Code::of(files);
    let mut findings = Vec::new();
    let mut tests_named = 0;
    let mut titles: Vec<bool> = Vec::new();
    for (number, line) in document.text.lines().enumerate() {
        let is_row = line.trim_start().starts_with('|');
        if !is_row {
            titles.clear();
        } else if titles.is_empty() {
            titles = line.split('|').map(speaks_of_tests).collect();
        }
        for name in names_in(line) {
            let column = line[..name.at].matches('|').count();
            let titled = is_row && titles.get(column).copied().unwrap_or(false);
            let meant = name.krate.is_some() || titled || speaks_of_tests(&line[..name.at]);
            if code.has_function(&name) {
                tests_named += 1;
            } else if meant || !code.has_word(name.function) {
                let sentence = format!("no test `{}` in the sources", name.text);
                findings.push(Finding {
                    file: PROMISES.to_owned(),
                    line: number + 1,
                    rule: "promise",
                    sentence,
                });
            }
        }
    }
    if tests_named == 0 && findings.is_empty() {
        let sentence = "names no test at all; a promise without a test is a wish".to_owned();
        findings.push(Finding {
            file: PROMISES.to_owned(),
            line: 1,
            rule: "promise",
            sentence,
        });
    }
    findings
}

struct Name<'a> {
    text: &'a str,
    krate: Option<&'a str>,
    function: &'a str,
    at: usize,
}

/// Returns what stands in backticks and reads like a test's name.
fn names_in(line: &str) -> Vec<Name<'_>> {
    let mut names = Vec::new();
    let mut at = 0;
    for (index, text) in line.split('`').enumerate() {
        let parts: Vec<&str> = text.split("::").collect();
        if let (true, [.., function]) = (index % 2 == 1, parts.as_slice())
            && parts.iter().all(|part| is_snake(part))
            && function.matches('_').count() >= UNDERSCORES_MIN
        {
            let krate = (parts.len() > 1).then(|| parts[0]);
            names.push(Name {
                text,
                krate,
                function,
                at,
            });
        }
        at += text.len() + 1;
    }
    names
}

fn is_snake(part: &str) -> bool {
    part.starts_with(|first: char| first.is_ascii_lowercase())
        && part
            .chars()
            .all(|next| next.is_ascii_lowercase() || next.is_ascii_digit() || "_-".contains(next))
        && !part.ends_with('_')
}

fn speaks_of_tests(text: &str) -> bool {
    let outside = text.split('`').step_by(2);
    let mut words = outside.flat_map(|part| part.split(|next: char| !next.is_alphanumeric()));
    words.any(|word| {
        ["test", "tests", "tested"]
            .iter()
            .any(|known| word.eq_ignore_ascii_case(known))
    })
}

/// The functions by crate folder, and every word outside comments.
struct Code<'a> {
    functions: BTreeMap<&'a str, BTreeSet<String>>,
    words: BTreeSet<String>,
}

impl<'a> Code<'a> {
    fn of(files: &'a [ProjectFile]) -> Self {
        let mut code = Self {
            functions: BTreeMap::new(),
            words: BTreeSet::new(),
        };
        for file in files
            .iter()
            .filter(|file| file.path.ends_with(".rs") && !file.path.starts_with("cases/"))
        {
            let krate = file
                .path
                .strip_prefix("crates/")
                .unwrap_or(&file.path)
                .split('/')
                .next()
                .unwrap_or("");
            let plain = code_only(&file.text);
            let mut words = plain
                .split(|next: char| !next.is_alphanumeric() && next != '_')
                .filter(|word| !word.is_empty());
            let functions = code.functions.entry(krate).or_default();
            while let Some(word) = words.next() {
                if word == "fn" {
                    functions.extend(words.next().map(str::to_owned));
                }
            }
            // Wire words stand in literals, so those count here; whole-line comments do not.
            let lines = file
                .text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            let spoken = lines
                .flat_map(|line| line.split(|next: char| !next.is_alphanumeric() && next != '_'));
            code.words
                .extend(spoken.filter(|word| word.len() > 2).map(str::to_owned));
        }
        code
    }

    fn has_function(&self, name: &Name<'_>) -> bool {
        let mut crates = self.functions.iter();
        let here = |krate: &str| match name.krate.map(|named| named.replace('_', "-")) {
            // A path may start at a crate or, inside one crate's story, at a module.
            Some(named) if self.functions.contains_key(named.as_str()) => krate == named,
            Some(_) | None => true,
        };
        crates.any(|(krate, functions)| here(krate) && functions.contains(name.function))
    }

    /// Knows `source_tree_dirty` also as the variant `SourceTreeDirty`.
    fn has_word(&self, word: &str) -> bool {
        let capitalised = |part: &str| part[..1].to_ascii_uppercase() + &part[1..];
        let variant: String = word
            .split('_')
            .filter(|part| !part.is_empty())
            .map(capitalised)
            .collect();
        self.words.contains(word) || self.words.contains(&variant)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{file, shown};
    use super::*;

    fn check_text(text: &str) -> String {
        let sandbox = "#[test]\nfn a_child_cannot_outlive_us() {}\n// fn only_in_a_comment() {}";
        let contract =
            "enum Blocker { SourceTreeDirty }\nconst CODE: &str = \"dirty_ending_tree\";";
        shown(&check(&[
            file(PROMISES, text),
            file("crates/cto-sandbox/tests/it/kill.rs", sandbox),
            file("crates/cto-contract/src/blocker.rs", contract),
        ]))
    }

    #[test]
    fn a_named_test_must_exist() {
        assert_eq!(
            check_text("Nothing survives: `a_child_cannot_outlive_us`."),
            ""
        );
        assert_eq!(
            check_text("# Promises\nNothing survives: `a_child_cannot_outlive_me`."),
            "docs/security.md:2: promise: no test `a_child_cannot_outlive_me` in the sources"
        );
        assert!(check_text("Test: `only_in_a_comment`").contains("no test `only_in_a_comment`"));
    }

    #[test]
    fn a_path_names_the_crate_it_is_in() {
        assert_eq!(
            check_text("`cto_sandbox::kill::a_child_cannot_outlive_us`"),
            ""
        );
        assert_eq!(check_text("`cto-sandbox::a_child_cannot_outlive_us`"), "");
        assert_eq!(check_text("`kill::a_child_cannot_outlive_us`"), "");
        assert!(check_text("`cto_contract::a_child_cannot_outlive_us`").contains("no test"));
    }

    #[test]
    fn other_words_of_the_code_are_no_promise() {
        let known = "`a_child_cannot_outlive_us` ends in `source_tree_dirty` or `dirty_ending_tree`, not `cto run` or `no_diff`.";
        assert_eq!(check_text(known), "");
        assert!(check_text("Tests: `source_tree_dirty`").contains("no test `source_tree_dirty`"));
    }

    #[test]
    fn a_column_of_tests_holds_tests() {
        let table = "| promise | test |\n| --- | --- |\n| `source_tree_dirty` | `a_child_cannot_outlive_us` |\n";
        assert_eq!(check_text(table), "");
        let stale = "| promise | test |\n| --- | --- |\n| x | `source_tree_dirty` |\n";
        assert!(check_text(stale).starts_with("docs/security.md:3: promise:"));
    }

    #[test]
    fn promises_without_any_test_are_found() {
        assert!(check_text("We are safe.").contains("names no test at all"));
    }
}
