//! What a row's pack must show: its verdict, its marker, every artifact, and nothing of endpoint and key.

use std::fs;
use std::path::Path;

use cto_contract::artifact::{EVENTS, PATCH, REPORT_JSON, REQUIRED};
use cto_contract::blocker::{BlockerCode, Moment};
use cto_contract::report::Report;
use cto_contract::words::{Lane, RunStatus, Stage};
use cto_evidence::verify::{VerifyOptions, name_in_path, verify};

use super::promised::promised;
use super::rows::{Row, Started};
use super::site::Seen;

/// Most of a file that is searched.
const FILE_BYTES_MAX: u64 = 64 << 20;

pub(super) struct Judged {
    pub(super) status: RunStatus,
    pub(super) process_started: bool,
    pub(super) errors: Vec<String>,
}

pub(super) fn judge(row: &Row, seen: &Seen) -> Result<Judged, String> {
    let bytes = fs::read(seen.pack.join(REPORT_JSON)).map_err(|e| e.to_string())?;
    let report: Report = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
    let mut errors = verdict(row, &report);
    errors.extend(artifacts(row, &seen.pack));
    errors.extend(agreement(&report));
    errors.extend(exposed(&seen.pack, &seen.hidden));
    errors.extend(untouched(&report, &seen.pack));
    let options = VerifyOptions {
        trusted: seen.trusted.clone(),
        asked_name: name_in_path(&seen.pack),
        ..VerifyOptions::default()
    };
    let verified = verify(&seen.pack, &options);
    let wrong = verified.errors.iter();
    errors.extend(wrong.map(|e| format!("verify: {}: {}", e.code, e.message)));
    Ok(Judged {
        status: report.verdict.status,
        process_started: report.backend.case_process_started,
        errors,
    })
}

fn verdict(row: &Row, report: &Report) -> Vec<String> {
    let mut wrong = Vec::new();
    let verdict = &report.verdict;
    let codes: Vec<BlockerCode> = verdict.blockers.iter().map(|b| b.code).collect();
    let is_started = report.backend.case_process_started;
    let moment = match is_started {
        true => Moment::AfterStart,
        false => Moment::BeforeStart,
    };
    let status = row.status(moment);
    let others = codes.get(1..).unwrap_or_default().iter();
    let others: Vec<BlockerCode> = others
        .copied()
        .filter(|code| !row.perhaps.contains(code))
        .collect();
    if verdict.status != status || codes.first().copied() != row.blocker || others != row.companions
    {
        let said: Vec<String> = verdict
            .blockers
            .iter()
            .map(|b| format!("{}: {}", b.code, b.message))
            .collect();
        wrong.push(format!(
            "{} with [{}], not {} with {}",
            verdict.status,
            said.join("; "),
            status,
            row.blocker.map_or("none", BlockerCode::as_str)
        ));
    }
    if verdict.fault_class != row.fault_class {
        wrong.push(format!("fault class {}", verdict.fault_class));
    }
    let is_as_expected = match row.started {
        Started::Yes => is_started,
        Started::No => !is_started,
    };
    if !is_as_expected {
        wrong.push(format!("case_process_started is {is_started}"));
    }
    let reason = verdict
        .blockers
        .first()
        .map(|b| b.failure_reason(Lane::Case));
    let is_promised = match (row.blocker, &verdict.failure_reason) {
        (None, None) => true,
        (Some(code), Some(told)) => promised(code).reason.holds(told),
        (None, Some(_)) | (Some(_), None) => false,
    };
    if verdict.failure_reason != reason || !is_promised {
        wrong.push(format!("failure_reason is {:?}", verdict.failure_reason));
    }
    wrong
}

/// Every required artifact, the marker of the blocker, and what the row wants to see.
fn artifacts(row: &Row, pack: &Path) -> Vec<String> {
    let marker = row
        .blocker
        .and_then(|code| code.row().marker_path(Lane::Case));
    let promised = row.blocker.and_then(|code| promised(code).marker);
    let markers = marker.into_iter().chain(promised.map(str::to_owned));
    let needed = REQUIRED.iter().map(|name| (*name).to_owned());
    let needed = needed.chain(markers);
    let missing = needed.filter(|name| !pack.join(name).is_file());
    let mut wrong: Vec<String> = missing.map(|name| format!("`{name}` is missing")).collect();
    for (file, text) in row.shows {
        match fs::read_to_string(pack.join(file)) {
            Ok(found) if found.contains(text) => {}
            Ok(_) => wrong.push(format!("`{file}` does not say `{}`", text.escape_debug())),
            Err(error) => wrong.push(format!("`{file}`: {error}")),
        }
    }
    wrong
}

/// Mode and scope of a run say the same, also of one that was refused.
fn agreement(report: &Report) -> Vec<String> {
    let authority = &report.authority;
    let stage = authority.stage;
    let first = report.verdict.blockers.first().map(|b| b.code);
    // What no stage was permitted for has none of both.
    let of = match first {
        Some(BlockerCode::StageGateMissing) => Stage::FIRST,
        Some(_) | None => stage,
    };
    let is_agreed = stage == Stage::FIXTURE
        && authority.mutation_mode == of.mode()
        && authority.allowed_mutation_scope == of.scope();
    match is_agreed {
        true => Vec::new(),
        false => vec![format!(
            "mode {} and scope `{}` do not fit stage {}",
            authority.mutation_mode, authority.allowed_mutation_scope, authority.stage
        )],
    }
}

/// A run whose program was never started shows that nothing of it happened.
fn untouched(report: &Report, pack: &Path) -> Vec<String> {
    if report.backend.case_process_started {
        return Vec::new();
    }
    let read = |name: &str| fs::read_to_string(pack.join(name)).unwrap_or_default();
    let log = read(EVENTS);
    let mut wrong = Vec::new();
    for started in ["\"type\":\"backend.started\"", "\"type\":\"patch.applied\""] {
        if log.contains(started) {
            wrong.push(format!("nothing was started, and the log has {started}"));
        }
    }
    if !read(PATCH).is_empty() {
        wrong.push("nothing was started, and there is a patch".to_owned());
    }
    if report.change.allowed_writes_passed.is_some() || report.checks.tests_passed.is_some() {
        wrong.push("what was not looked at is not null".to_owned());
    }
    wrong
}

/// Files that tell where the model is, or what opens it, plainly or encoded.
fn exposed(pack: &Path, hidden: &[String]) -> Vec<String> {
    let needles: Vec<String> = hidden.iter().flat_map(|text| written_forms(text)).collect();
    let mut wrong = Vec::new();
    let mut waiting = vec![pack.to_owned()];
    while let Some(directory) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            wrong.push(format!("`{}` can't be searched", directory.display()));
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let is_small = entry.metadata().is_ok_and(|m| m.len() <= FILE_BYTES_MAX);
            let Some(bytes) = is_small.then(|| fs::read(&path).ok()).flatten() else {
                wrong.push(format!("`{}` can't be searched", path.display()));
                continue;
            };
            let text = String::from_utf8_lossy(&bytes);
            if needles.iter().any(|needle| text.contains(needle)) {
                wrong.push(format!("`{}` holds endpoint or key", path.display()));
            }
        }
    }
    wrong
}

/// A text as it is, as an address would write it, and as it stands in base64 at each place of a group.
fn written_forms(text: &str) -> Vec<String> {
    let percent = |upper: bool| {
        let byte = |b: u8| match upper {
            true => format!("%{b:02X}"),
            false => format!("%{b:02x}"),
        };
        text.bytes().map(byte).collect::<String>()
    };
    let in_base64 = |before: usize| {
        let padded = [vec![0; before], text.as_bytes().to_vec()].concat();
        // Whole groups only, and without what the bytes before have a part in.
        let whole = &padded[..padded.len() - padded.len() % 3];
        base64(whole).split_off(before + usize::from(before > 0))
    };
    let mut forms = vec![text.to_owned(), percent(true), percent(false)];
    forms.extend((0..3).map(in_base64));
    forms
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let bits = three
            .iter()
            .fold(0_usize, |bits, b| bits << 8 | usize::from(*b));
        [18, 12, 6, 0].map(|shift| char::from(LETTERS[(bits >> shift) & 63]))
    };
    bytes.chunks_exact(3).flat_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_in_every_form_that_it_is_looked_for() {
        assert_eq!(base64(b"key-of-a"[..6].as_ref()), "a2V5LW9m");
        let forms = written_forms("key-of-a-model");
        assert_eq!(forms[1], "%6B%65%79%2D%6F%66%2D%61%2D%6D%6F%64%65%6C");
        // `base64` of "key-of-a-model", "xkey-of-a-model" and "xxkey-of-a-model".
        for encoded in [
            "a2V5LW9mLWEtbW9kZWw=",
            "eGtleS1vZi1hLW1vZGVs",
            "eHhrZXktb2YtYS1tb2RlbA==",
        ] {
            assert!(
                forms[3..].iter().any(|form| encoded.contains(form)),
                "{encoded}"
            );
        }
    }
}
