//! What a pack of Case must say for each blocker, word for word. It is written out here and not taken from the table of
//! blockers, so that a change of that table shows.

use cto_contract::blocker::BlockerCode as Code;

/// What is promised.
pub(super) struct Promise {
    /// A file of the pack.
    pub(super) marker: Option<&'static str>,
    pub(super) reason: Reason,
}

/// How `failure_reason` reads.
#[derive(Clone, Copy)]
pub(super) enum Reason {
    Exactly(&'static str),
    /// And then the name of what it is about.
    Begins(&'static str),
    /// A sentence.
    Any,
}

impl Reason {
    pub(super) fn holds(&self, told: &str) -> bool {
        match self {
            Self::Exactly(words) => told == *words,
            Self::Begins(words) => told.len() > words.len() && told.starts_with(words),
            Self::Any => !told.is_empty(),
        }
    }
}

const UNAVAILABLE: Reason = Reason::Exactly("provider unavailable");

/// Codes, their marker, and their reason.
const PROMISES: &[(&[Code], &str, Reason)] = &[
    (
        &[
            Code::GateMissing,
            Code::StageGateMissing,
            Code::ProviderDecisionMissing,
        ],
        "backend/case-gate.log",
        Reason::Begins("gate missing: "),
    ),
    (
        &[
            Code::ModelNotAdmitted,
            Code::ModelAdmissionMismatch,
            Code::ModelAdmissionInvalid,
        ],
        "backend/provider-model-not-admitted.txt",
        Reason::Exactly("model not admitted"),
    ),
    (
        &[Code::LocalProviderConfigMissing],
        "backend/provider-local-config-unavailable.txt",
        UNAVAILABLE,
    ),
    (
        &[Code::ProviderAuthUnavailable],
        "backend/provider-auth-unavailable.txt",
        UNAVAILABLE,
    ),
    (
        &[Code::ProviderUnavailable],
        "backend/provider-unavailable.txt",
        UNAVAILABLE,
    ),
    (
        &[Code::ProviderReasoningOnly],
        "backend/provider-reasoning-only.txt",
        Reason::Exactly("provider response shape unavailable"),
    ),
    (
        &[Code::AgentProtocolFailed],
        "backend/provider-agent-protocol.txt",
        Reason::Exactly("case agent result protocol failed"),
    ),
    (
        &[Code::LifecycleTimeoutAfterValidPatch],
        "backend/provider-timeout.txt",
        Reason::Exactly("lifecycle timeout after valid patch"),
    ),
    (
        &[Code::Timeout],
        "backend/provider-timeout.txt",
        Reason::Any,
    ),
    (
        &[Code::BackendFailed],
        "backend/stderr.log",
        Reason::Begins("case engine failed with "),
    ),
];

/// What is promised for a blocker.
pub(super) fn promised(code: Code) -> Promise {
    let found = PROMISES.iter().find(|(codes, _, _)| codes.contains(&code));
    match found {
        Some((_, marker, reason)) => Promise {
            marker: Some(marker),
            reason: *reason,
        },
        None => Promise {
            marker: None,
            reason: Reason::Any,
        },
    }
}
