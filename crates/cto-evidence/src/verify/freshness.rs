//! Whether every artifact was made by this run, between its start and its seal, in the order of the seal.

use cto_contract::artifact::{ATTESTATION, FreshnessSource, REPORT_JSON, REPORT_MD, SHA256SUMS};
use cto_contract::report::Report;
use cto_contract::verify::VerifyCode;

use super::files::Files;
use super::findings::Findings;

const CODE: VerifyCode = VerifyCode::FreshnessInvalid;

/// Checks order and bounds inside the pack. File times are never looked at: they do not survive a copy.
///
/// Whoever recovers a run knows only that the files of the dead process are there, so `checked` is right for them.
pub(super) fn check(report: &Report, files: &Files, is_recovered: bool, findings: &mut Findings) {
    let freshness = &report.artifacts.freshness;
    let is_ours = |path: &str, source: FreshnessSource| match source {
        FreshnessSource::Written => true,
        FreshnessSource::Checked => is_recovered && path != REPORT_JSON && path != REPORT_MD,
    };
    for path in files
        .paths
        .iter()
        .filter(|p| *p != SHA256SUMS && *p != ATTESTATION)
    {
        match freshness.get(path) {
            None => findings.file(CODE, path, "the report does not say when it was written"),
            Some(entry) => findings.need(
                is_ours(path, entry.source),
                CODE,
                path,
                "a file of the pack that this run did not write",
            ),
        }
    }
    let Some(last) = freshness.get(REPORT_JSON) else {
        return;
    };
    let (started, finished) = (report.run.run_started_at, report.run.run_finished_at);
    findings.need(
        started <= finished && finished <= last.wall,
        CODE,
        REPORT_JSON,
        "run_started_at, run_finished_at and the time of report.json do not ascend",
    );
    let report_md = freshness
        .get(REPORT_MD)
        .map_or(last.monotonic_ns, |md| md.monotonic_ns);
    findings.need(
        report_md <= last.monotonic_ns,
        CODE,
        REPORT_MD,
        "was written after report.json",
    );
    for (path, entry) in freshness {
        findings.need(
            entry.nonce == report.run.nonce,
            CODE,
            path,
            "carries the nonce of another run",
        );
        findings.need(entry.wall >= started, CODE, path, "is older than the run");
        findings.need(
            entry.wall <= last.wall,
            CODE,
            path,
            "is younger than report.json",
        );
        if entry.source == FreshnessSource::Written && !files.has(path) {
            findings.file(
                CODE,
                path,
                "is said to be written, but is no file of the pack",
            );
        }
        if path != REPORT_JSON && path != REPORT_MD {
            findings.need(
                entry.monotonic_ns <= report_md,
                CODE,
                path,
                "was written after report.md",
            );
        }
    }
}
