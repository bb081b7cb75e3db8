//! What every crate and the repository itself must have, so that a newcomer finds it where it is everywhere else.

use std::path::Path;

use cargo_metadata::TargetKind;

use super::Finding;
use crate::workspace::{ProjectFile, Workspace};

const DOCUMENTS: &[&str] = &[
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "docs/ARCHITECTURE.md",
    "docs/evidence-format.md",
    "docs/security.md",
];
const CI: &str = ".ci/run";

/// Paths from the workspace root.
pub(crate) struct CrateRoots {
    manifest: String,
    roots: Vec<String>,
}

/// Returns the library and the binaries of each crate; tests and benches need no introduction.
pub(crate) fn crate_roots_of(workspace: &Workspace) -> Vec<CrateRoots> {
    let root = &workspace.metadata.workspace_root;
    let packages = workspace.metadata.packages.iter();
    packages
        .map(|package| CrateRoots {
            manifest: package
                .manifest_path
                .strip_prefix(root)
                .unwrap_or(&package.manifest_path)
                .to_string(),
            roots: package
                .targets
                .iter()
                .filter(|target| {
                    target.kind.iter().any(|kind| {
                        matches!(
                            kind,
                            TargetKind::Lib | TargetKind::Bin | TargetKind::ProcMacro
                        )
                    })
                })
                .map(|target| {
                    target
                        .src_path
                        .strip_prefix(root)
                        .unwrap_or(&target.src_path)
                        .to_string()
                })
                .collect(),
        })
        .collect()
}

pub(crate) fn check(files: &[ProjectFile], crates: &[CrateRoots]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |file: &str, rule, sentence: &str| {
        findings.push(Finding {
            file: file.to_owned(),
            line: 1,
            rule,
            sentence: sentence.to_owned(),
        });
    };
    let text_of = |path: &str| {
        files
            .iter()
            .find(|file| file.path == path)
            .map_or("", |file| file.text.as_str())
    };
    for document in DOCUMENTS {
        if text_of(document).trim().is_empty() {
            found(document, "document", "is missing or empty");
        }
    }
    for krate in crates {
        if !inherits_lints(text_of(&krate.manifest)) {
            found(&krate.manifest, "lints", "needs `[lints] workspace = true`");
        }
        for root in &krate.roots {
            if !text_of(root).starts_with("//!") {
                found(
                    root,
                    "crate-root",
                    "opens with `//!`: one sentence of purpose, then what never happens here",
                );
            }
        }
    }
    findings
}

/// Checks what only the file system knows.
pub(crate) fn check_modes(root: &Path) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt as _;
    let executable = root
        .join(CI)
        .metadata()
        .is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
    let sentence = "is missing or not executable".to_owned();
    (!executable).then(|| Finding {
        file: CI.to_owned(),
        line: 1,
        rule: "document",
        sentence,
    })
}

fn inherits_lints(manifest: &str) -> bool {
    let mut section = "";
    manifest
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .any(|line| {
            if line.starts_with('[') {
                section = line;
                return false;
            }
            let setting: String = line.chars().filter(|next| !next.is_whitespace()).collect();
            (section == "[lints]" && setting == "workspace=true")
                || (section.is_empty() && setting == "lints.workspace=true")
        })
}

#[cfg(test)]
mod tests {
    use super::super::samples::{file, shown};
    use super::*;

    fn check_crate(manifest: &str, root: &str) -> String {
        let mut files: Vec<_> = DOCUMENTS.iter().map(|path| file(path, "text")).collect();
        files.push(file("crates/a/Cargo.toml", manifest));
        files.push(file("crates/a/src/lib.rs", root));
        let crates = [CrateRoots {
            manifest: "crates/a/Cargo.toml".to_owned(),
            roots: vec!["crates/a/src/lib.rs".to_owned()],
        }];
        shown(&check(&files, &crates))
    }

    const LINTS: &str = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true # all\n";

    #[test]
    fn a_crate_inherits_the_lints() {
        assert_eq!(check_crate(LINTS, "//! A.\n"), "");
        assert_eq!(
            check_crate("lints.workspace = true\n[package]", "//! A.\n"),
            ""
        );
        let missing = "crates/a/Cargo.toml:1: lints: needs `[lints] workspace = true`";
        assert_eq!(
            check_crate("[package]\nworkspace = true", "//! A.\n"),
            missing
        );
        assert_eq!(
            check_crate("[lints]\n# workspace = true", "//! A.\n"),
            missing
        );
        assert_eq!(
            check_crate("[lints]\nworkspace = false", "//! A.\n"),
            missing
        );
    }

    #[test]
    fn a_crate_root_opens_with_its_purpose() {
        assert!(
            check_crate(LINTS, "// A.\nuse b;\n").starts_with("crates/a/src/lib.rs:1: crate-root:")
        );
        assert!(check_crate(LINTS, "use b;\n//! A.\n").contains("crate-root"));
    }

    #[test]
    fn every_document_is_there_and_says_something() {
        let shown = shown(&check(
            &[file("README.md", "cto"), file("CHANGELOG.md", " \n")],
            &[],
        ));
        assert!(!shown.contains("README.md"));
        assert!(shown.contains("CHANGELOG.md:1: document: is missing or empty"));
        assert!(shown.contains("LICENSE-MIT:1: document"));
    }

    #[test]
    fn a_folder_without_an_executable_ci_script_is_found() {
        let nowhere = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(check_modes(nowhere).is_some());
    }
}
