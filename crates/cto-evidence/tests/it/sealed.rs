//! From the plan of a run to its sealed pack.

use std::collections::BTreeMap;

use cto_contract::artifact::{Freshness, FreshnessSource, REPORT_JSON};
use cto_contract::event::{EventKind, Residue, VerificationCompleted};
use cto_contract::report::{
    ArtifactSection, AuthoritySection, BackendSection, ChangeSection, ChecksSection, Report,
    ReportSchema, Resources, RunSection, SandboxSection, SourceSection, VerdictSection,
};
use cto_contract::verification::Verification;
use cto_contract::verify::Claim;
use cto_contract::words::{
    ApprovalStatus, BackendCompletion, ClaimLevel, Lane, NeverActive, NotPromoted, OutcomeState,
    SandboxClass, SourceAdmissionStatus,
};
use cto_evidence::canonical::{digest_of, to_canonical};
use cto_evidence::chain::LineChain;
use cto_evidence::seal::{SealInput, seal};
use cto_evidence::writer::PackWriter;
use tempfile::TempDir;

use crate::sample::{Pack, Plan, at, sandbox, verification};

macro_rules! last {
    ($plan:expr, $variant:ident) => {
        $plan.events.iter().rev().find_map(|(_, k)| {
            if let EventKind::$variant(d) = k {
                Some(d.clone())
            } else {
                None
            }
        })
    };
}

impl Plan {
    fn report(&self) -> Report {
        let started = last!(self, RunStarted).unwrap();
        let completed = last!(self, RunCompleted).unwrap();
        let plan = last!(self, PlanUpdated);
        let patch = last!(self, PatchApplied);
        let diff = last!(self, GitDiffChecked);
        let checks = last!(self, VerificationCompleted);
        let end = last!(self, BackendFinished);
        let launched = plan.as_ref().map(|p| p.plan.launched());
        let identity = plan.map(|p| p.identity);
        let not_run = Verification {
            passed: false,
            commands: Vec::new(),
            baseline: Vec::new(),
            baseline_failed: None,
            not_run: Some("blocked".to_owned()),
            ..verification()
        };
        let seen = verification_of(checks.as_ref(), not_run);
        Report {
            schema_version: ReportSchema,
            run: RunSection {
                case_id: "r1-string-slugify".parse().unwrap(),
                run_id: self.run_id.clone(),
                parent_run_id: None,
                nonce: self.nonce.clone(),
                title: started.title.clone(),
                run_started_at: at(0),
                run_finished_at: at(30),
                conformance: false,
                harness_version: "0.1.0".to_owned(),
            },
            verdict: VerdictSection {
                status: completed.status,
                blockers: completed.blockers.clone(),
                failure_reason: completed.failure_reason.clone(),
                fault_class: completed.fault_class,
                not_applicable: BTreeMap::from([(
                    "tokens".to_owned(),
                    "this lane has no model".to_owned(),
                )]),
                claims: vec![Claim {
                    claim: "Every changed path is within the contract".to_owned(),
                    level: if diff.is_some() {
                        ClaimLevel::Verified
                    } else {
                        ClaimLevel::Absent
                    },
                    basis: "recomputed from patch.diff and task-contract.json; git.diff.checked"
                        .to_owned(),
                }],
            },
            backend: BackendSection {
                backend: Lane::Fake,
                backend_exit_code: end.as_ref().and_then(|e| e.exit_code),
                backend_signal: None,
                backend_completion: end
                    .as_ref()
                    .map_or(BackendCompletion::None, |e| e.completion),
                case_process_started: false,
                backend_process_started: end.is_some(),
                identity_digest: identity.as_ref().map(|i| digest_of(i).unwrap()),
                identity,
                launched,
                model_provider: None,
                model: None,
            },
            change: ChangeSection {
                changed_files: diff
                    .as_ref()
                    .map(|d| d.changed_files.clone())
                    .unwrap_or_default(),
                changes: patch
                    .as_ref()
                    .map(|p| p.changes.clone())
                    .unwrap_or_default(),
                scopes: diff.as_ref().map(|d| d.scopes.clone()).unwrap_or_default(),
                allowed_writes_passed: diff.as_ref().is_none_or(|d| d.allowed_writes_passed),
                forbidden_paths_passed: diff.as_ref().is_none_or(|d| d.forbidden_paths_passed),
                baseline_tree_id: patch.as_ref().map(|p| p.base_tree_id.clone()),
                patch_tree_id: patch.as_ref().and_then(|p| p.applied_tree_id.clone()),
                verified_tree_id: checks.as_ref().and_then(|c| c.verified_tree_id.clone()),
                residue: Residue::default(),
                oddities: Vec::new(),
            },
            checks: ChecksSection {
                tests_passed: seen.passed,
                verification: seen,
                required_events_passed: true,
                missing_events: Vec::new(),
            },
            authority: AuthoritySection {
                stage: started.stage,
                mutation_mode: started.mutation_mode,
                allowed_mutation_scope: started.stage.scope().to_owned(),
                approval_status: ApprovalStatus::NotRequired,
                approval_id: None,
                source_admission_status: SourceAdmissionStatus::Admitted,
                operator_outcome: OutcomeState::NotRequired,
                contract_digest: digest_of(&self.contract).unwrap(),
                runtime_default_activation: NeverActive,
                core_promotion_status: NotPromoted,
                forbidden_actions_attempted: Vec::new(),
                ladder: None,
            },
            source: SourceSection::default(),
            resources: Resources {
                wall_seconds: Some(123.456e-9),
                backend_seconds: Some(0.1),
                verification_seconds: Some(1e21),
                cpu_seconds: None,
                peak_memory_bytes: Some(9_007_199_254_740_991),
                tokens: None,
                cost: None,
                model_traffic: None,
            },
            sandbox: SandboxSection {
                provider: "namespaces".to_owned(),
                provider_from: cto_contract::plan::SettingSource::Default,
                class: SandboxClass::Process,
                layers: sandbox().layers,
                writable_roots: Vec::new(),
                denials: Vec::new(),
                drops: 0,
                no_survivors: end.map(|e| e.no_survivors),
            },
            artifacts: ArtifactSection {
                artifacts_dir: format!("$CTO_HOME/harness-runs/{}", self.run_id),
                run_artifact_dir: format!("$CTO_HOME/harness-runs/{}", self.run_id),
                runtime_workspace_root: "$WORKSPACE".to_owned(),
                artifact_paths: Vec::new(),
                artifact_digests: BTreeMap::new(),
                freshness: BTreeMap::new(),
            },
        }
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
            let ts = if n == 3 { at(1) } else { at(n as i64) };
            out.extend(chain.append(ts, *actor, kind.clone()).unwrap().bytes);
        }
        out
    }

    /// Writes everything and seals it.
    pub(crate) fn seal(self) -> Pack {
        let home = TempDir::new().unwrap();
        let path = home.path().join(self.run_id.as_str());
        let writer = PackWriter::create(&path).unwrap();
        let decision = last!(self, EligibilityDecided).map(|e| e.decision);
        let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::from([
            ("events.normalized.jsonl".to_owned(), self.log()),
            ("trace.jsonl".to_owned(), b"{}\n".to_vec()),
            ("patch.diff".to_owned(), self.patch.clone()),
            ("test.log".to_owned(), b"ok\n".to_vec()),
            (
                "eligibility.json".to_owned(),
                serde_json::to_vec_pretty(&decision).unwrap(),
            ),
            (
                "task-contract.json".to_owned(),
                to_canonical(&self.contract).unwrap(),
            ),
            ("report.md".to_owned(), b"# Run\n".to_vec()),
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

fn verification_of(event: Option<&VerificationCompleted>, not_run: Verification) -> Verification {
    event.map_or(not_run, |e| e.verification.clone())
}
