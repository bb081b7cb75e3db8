//! The house rules that neither the compiler nor clippy checks, as tests on the text and the manifests.
//!
//! Every check is a pure function from texts to findings; this module gathers the texts and prints the findings.

mod dependencies;
mod fences;
mod layout;
mod promises;
mod sizes;
mod source;
mod words;

use std::fmt;
use std::process::ExitCode;

use anyhow::bail;

use crate::workspace::Workspace;

/// One broken rule, at one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    file: String,
    line: usize,
    rule: &'static str,
    sentence: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}: {}",
            self.file, self.line, self.rule, self.sentence
        )
    }
}

pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    if let Some(extra) = args.first() {
        bail!("`cargo xtask tidy` takes no arguments, not `{extra}`");
    }
    let workspace = Workspace::load()?;
    let files = workspace.files()?;
    let crates = dependencies::crates_of(&workspace);
    let mut findings = dependencies::check(&crates);
    findings.extend(sizes::check(&files));
    findings.extend(fences::check(&files));
    findings.extend(words::check(&files, &workspace.root));
    findings.extend(layout::check(&files, &layout::crate_roots_of(&workspace)));
    findings.extend(layout::check_modes(&workspace.root));
    findings.extend(promises::check(&files));
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!(
            "tidy: {} files and {} crates, nothing found",
            files.len(),
            crates.len()
        );
        return Ok(ExitCode::SUCCESS);
    }
    println!("tidy: {} found", findings.len());
    Ok(ExitCode::FAILURE)
}

/// What the checks' tests share: texts in, printed findings out.
#[cfg(test)]
mod samples {
    use super::Finding;
    use crate::workspace::ProjectFile;

    pub(crate) fn file(path: &str, text: &str) -> ProjectFile {
        ProjectFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    pub(crate) fn shown(findings: &[Finding]) -> String {
        findings
            .iter()
            .map(Finding::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    }

    pub(crate) fn rules(findings: &[Finding]) -> Vec<&'static str> {
        findings.iter().map(|finding| finding.rule).collect()
    }
}
