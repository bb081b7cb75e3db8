//! Whether the program of a lane is the one that was let in.

use cto_contract::admission::{AdmissionKind, AdmissionStatus, BinaryAdmission, SourceAdmission};
use cto_contract::ids::Digest;
use cto_contract::words::Lane;

use super::{Moment, Records, Standing, Stored};

/// The program of a lane, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramSeen {
    /// With no link left in it.
    pub path: String,
    pub is_executable: bool,
    /// It lies where anybody may put files.
    pub is_temporary: bool,
    pub digest: Digest,
    /// Of the tree that a script loads from.
    pub package: Option<Digest>,
    /// Of what runs a script.
    pub interpreter: Option<Digest>,
}

/// Why no record could let in the lane's program, whatever it is; none where one might.
pub fn is_refused(records: &Records, lane: Lane) -> Option<String> {
    let mut own = records.binaries.iter().filter(|b| b.record.lane == lane);
    if own
        .clone()
        .any(|b| b.record.status == AdmissionStatus::NotAdmitted)
    {
        return Some(refusal(lane));
    }
    own.next().is_none().then(|| nothing(records, lane))
}

fn refusal(lane: Lane) -> String {
    format!("a record says that the binary of {lane} is not admitted")
}

fn nothing(records: &Records, lane: Lane) -> String {
    match records.bad_of(AdmissionKind::Binary, lane) {
        Some(why) => format!("its record can't be used: {why}"),
        None => format!("no record admits the binary of {lane}"),
    }
}

/// The record that lets a program in, or why none does. `seen` is none where there is no program.
pub fn judge<'a>(
    records: &'a Records,
    lane: Lane,
    seen: Option<&ProgramSeen>,
    moment: Moment,
) -> Result<&'a Stored<BinaryAdmission>, String> {
    let own = || records.binaries.iter().filter(|b| b.record.lane == lane);
    if own().any(|b| b.record.status == AdmissionStatus::NotAdmitted) {
        return Err(refusal(lane));
    }
    let Some(seen) = seen else {
        return Err(format!("the program of {lane} is missing"));
    };
    if seen.is_temporary {
        return Err("the program lies under a temporary directory".to_owned());
    }
    if !seen.is_executable {
        return Err("the program can't be executed".to_owned());
    }
    let mut first = None;
    for stored in own() {
        match fits(stored, lane, seen, moment).and_then(|()| built_from(stored, records)) {
            Ok(()) => return Ok(stored),
            Err(why) => first = first.or(Some(why)),
        }
    }
    Err(first.unwrap_or_else(|| nothing(records, lane)))
}

/// A build that a person made is of the source that was let in, where that is pinned to a commit.
fn built_from(stored: &Stored<BinaryAdmission>, records: &Records) -> Result<(), String> {
    let Some(commit) = &stored.record.source_commit else {
        return Ok(());
    };
    let own = |s: &&Stored<SourceAdmission>| s.record.lane == stored.record.lane;
    let pinned = records.sources.iter().filter(own);
    let mut pinned = pinned.filter_map(|s| s.record.commit.as_ref()).peekable();
    if pinned.peek().is_none() || pinned.any(|admitted| admitted == commit) {
        return Ok(());
    }
    Err("the program was built from another commit than that of the admitted source".to_owned())
}

fn fits(
    stored: &Stored<BinaryAdmission>,
    lane: Lane,
    seen: &ProgramSeen,
    moment: Moment,
) -> Result<(), String> {
    let record = &stored.record;
    if record.path.as_str() != seen.path {
        return Err("the record is stale: it is about a program at another path".to_owned());
    }
    if record.sha256.as_ref() != Some(&seen.digest) {
        return Err("the program's digest changed: it is another one now".to_owned());
    }
    // What a script loads and what runs it are as much the program as its own file.
    if record.package_sha256 != seen.package {
        return Err(match record.package_sha256 {
            None => "the record names no digest of the package that the program loads from",
            Some(_) => "the package that the program loads from changed",
        }
        .to_owned());
    }
    if record.interpreter_sha256 != seen.interpreter {
        return Err(match record.interpreter_sha256 {
            None => "the record names no digest of what runs the program",
            Some(_) => "what runs the program changed",
        }
        .to_owned());
    }
    let word = lane.traits().identity_word;
    if !record.identity_check.answer.as_str().contains(word) {
        return Err(format!(
            "wrong identity: the program did not answer with \"{word}\" when it was admitted"
        ));
    }
    let standing = Standing::of(record.review_trigger.as_str(), stored.seal, moment);
    standing.into_refusal().map_or(Ok(()), Err)
}
