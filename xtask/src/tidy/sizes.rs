//! Long files are where understanding ends: a limit on sources, a tighter one on documents meant to be read whole.

use super::Finding;
use crate::workspace::ProjectFile;

const SOURCE_LINES_MAX: usize = 800;
/// Above this a source file needs a row in `LONG_SOURCES`.
const SOURCE_LINES_FREE: usize = 500;
const ARCHITECTURE_LINES_MAX: usize = 150;
const ADR_LINES_MAX: usize = 40;

/// Sources over 500 lines that are better in one piece, and why.
const LONG_SOURCES: &[(&str, &str)] = &[
    (
        "crates/cto-rules/src/eligibility/tests/twists.rs",
        "one table: all that can be wrong with the fact of a gate",
    ),
    (
        "crates/cto-runner/src/engines.rs",
        "one act: what is installed for a lane is looked at, shown, and written",
    ),
    (
        "crates/cto-rules/src/secrets/tests.rs",
        "one table: all spellings of a secret",
    ),
    (
        "crates/cto-evidence/tests/it/approvals.rs",
        "one table: all that can be wrong with what an operator signed",
    ),
    (
        "crates/cto-cli/tests/it/approvals.rs",
        "one story: a request from the first command to its receipt, and its kills",
    ),
];

pub(crate) fn check(files: &[ProjectFile]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = files
        .iter()
        .filter_map(|file| check_file(file, LONG_SOURCES))
        .collect();
    for (path, _) in LONG_SOURCES {
        if !files
            .iter()
            .any(|file| file.path == *path && file.text.lines().count() > SOURCE_LINES_FREE)
        {
            let sentence =
                format!("{path} is no longer over {SOURCE_LINES_FREE} lines; take it off the list");
            findings.push(Finding {
                file: file!().to_owned(),
                line: 1,
                rule: "file-size",
                sentence,
            });
        }
    }
    findings
}

fn check_file(file: &ProjectFile, long: &[(&str, &str)]) -> Option<Finding> {
    let lines = file.text.lines().count();
    let path = file.path.as_str();
    let is_adr = path.starts_with("docs/adr/") && path.ends_with(".md");
    // Case trees are data.
    let is_source = path.ends_with(".rs") && !path.starts_with("cases/");
    let sentence = if path == "docs/ARCHITECTURE.md" && lines > ARCHITECTURE_LINES_MAX {
        format!("{lines} lines; the map must be read in one go: at most {ARCHITECTURE_LINES_MAX}")
    } else if is_adr && lines > ADR_LINES_MAX {
        format!("{lines} lines; question, decision, price, doubt: at most {ADR_LINES_MAX}")
    } else if is_source && lines > SOURCE_LINES_MAX {
        format!("{lines} lines; split it: at most {SOURCE_LINES_MAX}")
    } else if is_source
        && lines > SOURCE_LINES_FREE
        && !long.iter().any(|(listed, _)| *listed == path)
    {
        format!(
            "{lines} lines; over {SOURCE_LINES_FREE} needs a reason in the list of long sources"
        )
    } else {
        return None;
    };
    Some(Finding {
        file: path.to_owned(),
        line: lines,
        rule: "file-size",
        sentence,
    })
}

#[cfg(test)]
mod tests {
    use super::super::samples::file;
    use super::*;

    fn passes(path: &str, lines: usize) -> bool {
        let listed = [("crates/a/src/long.rs", "one table")];
        check_file(&file(path, &"x\n".repeat(lines)), &listed).is_none()
    }

    #[test]
    fn sources_have_a_free_a_listed_and_a_forbidden_length() {
        assert!(passes("crates/a/src/b.rs", 500));
        assert!(!passes("crates/a/src/b.rs", 501));
        assert!(passes("crates/a/src/long.rs", 800));
        assert!(!passes("crates/a/src/long.rs", 801));
        assert!(passes("cases/big/workspace/main.rs", 5000));
    }

    #[test]
    fn documents_meant_to_be_read_whole_are_short() {
        assert!(passes("docs/ARCHITECTURE.md", 150) && !passes("docs/ARCHITECTURE.md", 151));
        assert!(passes("docs/adr/0001-git.md", 40) && !passes("docs/adr/0001-git.md", 41));
        assert!(passes("docs/evidence-format.md", 900));
    }
}
