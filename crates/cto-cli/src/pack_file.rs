//! Files of a pack, read for showing: by directory descriptor, no link followed, size capped.

use std::io::Read as _;
use std::path::Path;

use cto_contract::report::Report;
use cto_evidence::pack::PackDir;

use crate::failure::{Exit, Failure};

/// Most bytes of one file that a command shows.
const SHOWN_BYTES_MAX: u64 = 512 << 20;

/// Reads a file; none when it is not there.
pub(crate) fn read(pack: &Path, name: &str) -> Result<Option<Vec<u8>>, Failure> {
    let shown = || format!("could not read `{}`", pack.join(name).display());
    let failed = |e: &std::io::Error| {
        let mut failure = Failure::new(Exit::EVIDENCE, "file_unreadable", shown());
        failure.causes.push(e.to_string());
        failure
    };
    let dir = PackDir::open(pack).map_err(|e| failed(&e))?;
    let file = match dir.open_path(name) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(&e)),
    };
    if !file.metadata().map_err(|e| failed(&e))?.is_file() {
        return Err(Failure::new(
            Exit::EVIDENCE,
            "file_special",
            format!("`{}` is not a regular file", pack.join(name).display()),
        ));
    }
    let mut bytes = Vec::new();
    file.take(SHOWN_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| failed(&e))?;
    if bytes.len() as u64 > SHOWN_BYTES_MAX {
        return Err(Failure::new(
            Exit::EVIDENCE,
            "file_oversized",
            format!(
                "`{}` is larger than the {SHOWN_BYTES_MAX} bytes that are shown",
                pack.join(name).display()
            ),
        ));
    }
    Ok(Some(bytes))
}

/// Reads a file that must be there.
pub(crate) fn require(pack: &Path, name: &str) -> Result<Vec<u8>, Failure> {
    match read(pack, name)? {
        Some(bytes) => Ok(bytes),
        None if is_withheld(pack, name)? => Err(Failure::new(
            Exit::USAGE,
            "file_withheld",
            format!("`{name}` was withheld when this pack was exported"),
        )
        .hint("ask whoever exported it for the whole pack")),
        None => Err(missing(pack, name)),
    }
}

fn is_withheld(pack: &Path, name: &str) -> Result<bool, Failure> {
    let listed = read(pack, cto_evidence::withheld::WITHHELD)?;
    Ok(listed
        .and_then(|bytes| cto_evidence::withheld::read_withheld(&bytes).ok())
        .is_some_and(|paths| paths.contains(name)))
}

fn missing(pack: &Path, name: &str) -> Failure {
    Failure::new(Exit::EVIDENCE, "file_missing", format!("there is no `{}`", pack.join(name).display()))
        .hint("a run that still goes on has no report yet: `cto watch` follows it; one that crashed is sealed by `cto recover`")
}

/// Reads the report of a pack: its bytes and what they say.
pub(crate) fn report(pack: &Path) -> Result<(Vec<u8>, Report), Failure> {
    let bytes = require(pack, cto_contract::artifact::REPORT_JSON)?;
    let report = serde_json::from_slice(&bytes).map_err(|e| {
        let mut failure = Failure::new(
            Exit::EVIDENCE,
            "report_malformed",
            format!("the report of `{}` can't be read", pack.display()),
        );
        failure.causes.push(e.to_string());
        failure
    })?;
    Ok((bytes, report))
}

/// Reads the log of a pack as far as it is whole.
pub(crate) fn events(pack: &Path) -> Result<Vec<cto_contract::event::RunEvent>, Failure> {
    let bytes = require(pack, cto_contract::artifact::EVENTS)?;
    let whole = bytes
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |end| end + 1);
    let log = cto_evidence::chain::read_log(&bytes[..whole])
        .map_err(|e| Failure::of(Exit::EVIDENCE, "log_broken", &e))?;
    Ok(log.events)
}
