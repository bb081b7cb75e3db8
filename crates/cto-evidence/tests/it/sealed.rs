//! From the plan of a run to its sealed pack.

use std::collections::BTreeMap;

use cto_contract::artifact::{Freshness, FreshnessSource, REPORT_JSON};
use cto_contract::event::EventKind;
use cto_contract::report::Report;
use cto_contract::words::Lane;
use cto_evidence::again::{page, trace_lines};
use cto_evidence::canonical::{digest_of, to_canonical};
use cto_evidence::chain::{LineChain, read_log};
use cto_evidence::seal::{SealInput, seal};
use cto_evidence::writer::PackWriter;
use cto_rules::checks::end_line;
use cto_rules::lifecycle::replay;
use cto_rules::views::report::{ReportInput, report};
use tempfile::TempDir;

use crate::sample::{Pack, Plan, at};

impl Plan {
    /// What the checks of the log printed, and how each ended.
    fn test_log(&self) -> Vec<u8> {
        let mut log = "ok\n".to_owned();
        for (_, kind) in &self.events {
            if let EventKind::VerificationCompleted(done) = kind {
                let seen = &done.verification;
                for result in seen.baseline.iter().chain(&seen.commands) {
                    log.push_str(&format!("{}\n\n", end_line(result)));
                }
            }
        }
        log.into_bytes()
    }

    /// The report, made from the log as the harness makes it.
    fn report(&self) -> Report {
        let log = read_log(&self.log()).unwrap();
        let state = replay(&log.events).unwrap();
        let input = ReportInput {
            contract_digest: digest_of(&self.contract).unwrap(),
            identity_digest: (state.plan.as_ref()).map(|p| digest_of(&p.identity).unwrap()),
            finished_at: state.last_at,
            // Between the trace and the page, and with many digits.
            wall_seconds: 20.000000123456,
        };
        report(&state, state.completed.as_ref().unwrap(), &input)
    }

    /// The lines of the log.
    pub(crate) fn log(&self) -> Vec<u8> {
        let mut chain = LineChain::start(
            &self.nonce,
            self.run_id.clone(),
            "r1-string-slugify".parse().unwrap(),
            Lane::Fake,
        );
        let mut out = Vec::new();
        for (n, (actor, kind)) in self.events.iter().enumerate() {
            // The wall clock goes back once: that is no error.
            let ts = match n {
                3 => at(1),
                n if n + 1 == self.events.len() => at(30),
                n => at(n as i64),
            };
            out.extend(chain.append(ts, *actor, kind.clone()).unwrap().bytes);
        }
        out
    }

    /// Writes everything and seals it.
    pub(crate) fn seal(self) -> Pack {
        let home = TempDir::new().unwrap();
        let path = home.path().join(self.run_id.as_str());
        let writer = PackWriter::create(&path).unwrap();
        let decision = self.events.iter().find_map(|(_, kind)| {
            if let EventKind::EligibilityDecided(data) = kind {
                Some(&data.decision)
            } else {
                None
            }
        });
        let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::from([
            ("events.normalized.jsonl".to_owned(), self.log()),
            (
                "trace.jsonl".to_owned(),
                trace_lines(&read_log(&self.log()).unwrap().events).unwrap(),
            ),
            ("patch.diff".to_owned(), self.patch.clone()),
            ("test.log".to_owned(), self.test_log()),
            (
                "eligibility.json".to_owned(),
                serde_json::to_vec_pretty(&decision).unwrap(),
            ),
            (
                "task-contract.json".to_owned(),
                to_canonical(&self.contract).unwrap(),
            ),
            (
                "report.md".to_owned(),
                page(&self.report(), Some(&self.contract)),
            ),
        ]);
        files.extend(self.backend_files.clone());
        let mut report = self.report();
        for (n, name) in files
            .keys()
            .map(String::as_str)
            .chain([REPORT_JSON])
            .enumerate()
        {
            let order = match name {
                "report.md" => 50,
                REPORT_JSON => 60,
                _ => n as u64,
            };
            let wall = at(order.min(30) as i64);
            let entry = Freshness {
                source: FreshnessSource::Written,
                monotonic_ns: order * 1_000_000_000,
                wall,
                nonce: self.nonce.clone(),
            };
            report.artifacts.freshness.insert(name.to_owned(), entry);
        }
        (self.edit)(&mut report);
        for (name, bytes) in &files {
            writer.write_new(name, bytes).unwrap();
        }
        let sealed = seal(
            &path,
            SealInput {
                report,
                key: &self.key,
            },
        )
        .unwrap();
        Pack {
            home,
            path,
            key: self.key,
            sealed,
        }
    }
}
