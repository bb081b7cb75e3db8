//! What is refused because of what the owner of a target said about it, or did not say.

use cto_contract::blocker::BlockerCode;

use super::super::fixture::Fixture;
use super::gates::{NO_PATCH, NOTHING_RAN};
use super::{MODEL_RECORD, PLAIN};

/// A target admission that lacks nothing but a signature, with some of its lines said otherwise.
macro_rules! target {
    (
        $(status: $status:literal)? $(owner: $owner:literal)? $(risk: $risk:literal)? $(paths: $paths:literal)?
        $(actions: $actions:literal)? $(source: $source:literal)? $(outcome: $outcome:literal)? $(path: $path:literal)?
    ) => {
        concat!(
            "admission_status: ", target!(@or $($status)?; "admitted"), "\n",
            "target_repository_path: ", target!(@or $($path)?; "$PLACE/repo"), "\n",
            "ownership_evidence: ", target!(@or $($owner)?; "made for this fixture"), "\n",
            "risk_classification: ", target!(@or $($risk)?; "low_risk_noncritical"), "\n",
            "allowed_paths: ", target!(@or $($paths)?; "[src/]"), "\n",
            "forbidden_actions: ", target!(@or $($actions)?; "[push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]"), "\n",
            "approval_source: ", target!(@or $($source)?; "the owner of this place"), "\n",
            "approval_timestamp: 2026-01-01\n",
            "operator_outcome_required: ", target!(@or $($outcome)?; "true"), "\n",
            "review_trigger: before another path\n",
        )
    };
    (@or ; $usual:literal) => { $usual };
    (@or $own:literal; $usual:literal) => { $own };
}

const MISSING: (&str, &str) = (
    "report.json",
    "\"target_repository_admission_status\": \"missing\"",
);
const INVALID: (&str, &str) = (
    "report.json",
    "\"target_repository_admission_status\": \"invalid\"",
);
const NOT_ADMITTED: (&str, &str) = (
    "report.json",
    "\"target_repository_admission_status\": \"not_admitted\"",
);
const STALE: (&str, &str) = (
    "report.json",
    "\"target_repository_admission_status\": \"stale\"",
);

/// Stage 5 is asked for. What else it needs is missing too; the record of the target is unsigned, which alone closes it.
const OWNED: Fixture = Fixture {
    terms: &[
        ("risk_class", "low_risk_noncritical"),
        ("mutation_mode", "owned-noncritical-repo"),
    ],
    stage_gate: Some("5"),
    stage: 5,
    companions: &[
        BlockerCode::ApprovalMissing,
        BlockerCode::SourceNotAdmitted,
        BlockerCode::BinaryNotAdmitted,
        BlockerCode::SandboxUnavailable,
        BlockerCode::StageNotProven,
        BlockerCode::TargetNotAdmitted,
    ],
    ..PLAIN
};

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        blocker: BlockerCode::TargetAdmissionMissing,
        trigger: "stage 5 is asked for and no record is about the repository",
        shows: &[NO_PATCH, NOTHING_RAN, MISSING],
        ..OWNED
    },
    Fixture {
        blocker: BlockerCode::TargetAdmissionInvalid,
        trigger: "the target admission has a field of the wrong type",
        records: &[
            ("model.yaml", MODEL_RECORD),
            ("target.yaml", target!(paths: "7")),
        ],
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            INVALID,
            ("report.json", "target.yaml:5:"),
        ],
        ..OWNED
    },
    Fixture {
        blocker: BlockerCode::TargetNotAdmitted,
        trigger: "the target admission says not_admitted",
        records: &[
            ("model.yaml", MODEL_RECORD),
            ("target.yaml", target!(status: "not_admitted")),
        ],
        shows: &[NO_PATCH, NOTHING_RAN, NOT_ADMITTED],
        ..OWNED
    },
    Fixture {
        blocker: BlockerCode::TargetNotAdmitted,
        variant: "unsigned",
        trigger: "nobody signed the target admission",
        records: &[("model.yaml", MODEL_RECORD), ("target.yaml", target!())],
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            NOT_ADMITTED,
            ("report.json", "needs an operator's signature"),
        ],
        ..OWNED
    },
    Fixture {
        blocker: BlockerCode::TargetNotAdmitted,
        variant: "moved",
        trigger: "the target admission is about a repository of that name at another path",
        terms: &[
            ("target_id", "repo"),
            ("risk_class", "low_risk_noncritical"),
            ("mutation_mode", "owned-noncritical-repo"),
        ],
        records: &[
            ("model.yaml", MODEL_RECORD),
            ("target.yaml", target!(path: "/nowhere/repo")),
        ],
        shows: &[NO_PATCH, NOTHING_RAN, STALE],
        ..OWNED
    },
    Fixture {
        blocker: BlockerCode::UnownedRepository,
        variant: "target",
        trigger: "the target admission has no ownership evidence",
        records: &[
            ("model.yaml", MODEL_RECORD),
            ("target.yaml", target!(owner: "''")),
        ],
        shows: &[NO_PATCH, NOTHING_RAN, ("report.json", "ownership_evidence")],
        ..OWNED
    },
    Fixture {
        blocker: BlockerCode::CriticalRepository,
        variant: "target",
        trigger: "the target admission names another class than low_risk_noncritical",
        records: &[
            ("model.yaml", MODEL_RECORD),
            ("target.yaml", target!(risk: "production")),
        ],
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("report.json", "risk_classification"),
        ],
        ..OWNED
    },
    Fixture {
        blocker: BlockerCode::AllowedPathsMissing,
        variant: "target",
        trigger: "the target admission allows no path",
        records: &[
            ("model.yaml", MODEL_RECORD),
            ("target.yaml", target!(paths: "[]")),
        ],
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("report.json", "the admission allows no path"),
        ],
        ..OWNED
    },
    Fixture {
        blocker: BlockerCode::ForbiddenActionsMissing,
        variant: "target",
        trigger: "the target admission forbids nine of the ten actions",
        records: &[
            ("model.yaml", MODEL_RECORD),
            (
                "target.yaml",
                target!(actions: "[merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, cortex_core_mutation]"),
            ),
        ],
        shows: &[NO_PATCH, NOTHING_RAN, ("report.json", "all ten actions")],
        ..OWNED
    },
    Fixture {
        blocker: BlockerCode::ApprovalSourceMissing,
        trigger: "the target admission does not say who approved it",
        records: &[
            ("model.yaml", MODEL_RECORD),
            ("target.yaml", target!(source: "''")),
        ],
        shows: &[NO_PATCH, NOTHING_RAN],
        ..OWNED
    },
    Fixture {
        blocker: BlockerCode::OperatorOutcomeRequirementMissing,
        trigger: "the target admission does not ask for an operator's outcome",
        records: &[
            ("model.yaml", MODEL_RECORD),
            ("target.yaml", target!(outcome: "false")),
        ],
        shows: &[NO_PATCH, NOTHING_RAN],
        ..OWNED
    },
    Fixture {
        blocker: BlockerCode::TargetScopeExceeded,
        trigger: "the contract wants more than the target admission allows",
        records: &[
            ("model.yaml", MODEL_RECORD),
            ("target.yaml", target!(paths: "[docs/]")),
        ],
        shows: &[
            NO_PATCH,
            NOTHING_RAN,
            ("report.json", "lies outside the admission's paths"),
        ],
        ..OWNED
    },
];
