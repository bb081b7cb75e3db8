//! A task contract as a file that its author names.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use cto_contract::document::DOCUMENT_BYTES_MAX;
use cto_contract::task::TaskContract;
use cto_rules::secrets::refuse_in_record;

use crate::failure::{Exit, Failure};

/// Reads a contract, YAML or JSON, and refuses one that holds a secret.
pub(crate) fn read(path: &Path) -> Result<TaskContract, Failure> {
    let shown = path.display().to_string();
    let failed = |e: std::io::Error| {
        let mut failure = Failure::new(
            Exit::USAGE,
            "contract_unreadable",
            format!("the contract `{shown}` can't be read"),
        );
        failure.causes.push(e.to_string());
        failure.hint("`cto init` writes one to start from")
    };
    let file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Failure::new(
            Exit::USAGE,
            "contract_unreadable",
            format!("the contract `{shown}` is not a regular file"),
        ));
    }
    let mut bytes = Vec::new();
    // One more than is read, so that the reader sees that it is too long.
    file.take(DOCUMENT_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    parse(&shown, &bytes)
}

/// The same for bytes that came from elsewhere.
pub(crate) fn parse(name: &str, bytes: &[u8]) -> Result<TaskContract, Failure> {
    let contract = TaskContract::read(name, bytes).map_err(|error| {
        let mut failure = Failure::new(
            Exit::USAGE,
            "contract_invalid",
            format!("`{name}` is not a task contract"),
        )
        .hint("`cto schema contract` prints the format; `cto init` writes one to start from");
        failure.causes.push(error.to_string());
        failure
    })?;
    let text = serde_json::to_string_pretty(&contract)
        .map_err(|e| Failure::of(Exit::FAULT, "output_not_encoded", &e))?;
    let Some(finding) = refuse_in_record(&text) else {
        return Ok(contract);
    };
    // What counts is the contract; the line is the author's.
    let line = std::str::from_utf8(bytes).ok().and_then(refuse_in_record);
    let line = line.map_or_else(String::new, |f| format!(", line {}", f.line));
    Err(Failure::new(
        Exit::USAGE,
        "contract_secret",
        format!(
            "`{name}` holds something that looks like a secret ({}{line})",
            finding.rule
        ),
    )
    .hint("take the secret out of the contract, and change it where it is used"))
}
