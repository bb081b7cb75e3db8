//! Freezes every wire name: renaming one needs a new schema version.

mod fields;
mod outputs;

use std::fmt::Write as _;

use cto_contract::{artifact, blocker::BlockerCode, event::*, words::*};

#[test]
fn wire_names_are_frozen() {
    let mut out = String::new();
    macro_rules! list {
        ($($ty:ty),+ $(,)?) => {$(
            let words: Vec<&str> = <$ty>::ALL.iter().map(|v| v.as_str()).collect();
            writeln!(out, "{}: {}", stringify!($ty).rsplit("::").next().unwrap().trim(), words.join(" ")).unwrap();
        )+};
    }
    list!(
        RunStatus,
        cto_contract::model_script::ModelFault,
        Lane,
        Wire,
        ProviderFault,
        MutationMode,
        FaultClass,
        BackendCompletion,
        cto_contract::event::PipelinePhase,
        cto_contract::event::PhaseStatus,
        cto_contract::event::EventFileFault,
        cto_contract::event::SaidEnd,
        cto_contract::identity::ProgramRole,
        ApprovalStatus,
        SourceAdmissionStatus,
        OutcomeState,
        ModelAdmissionStatus,
        TargetAdmissionStatus,
        AdmissionSeal,
        Presence,
        Custody,
        cto_contract::comparison::Agreement,
        cto_contract::ladder::ProofState,
        cto_contract::ladder::StageReason,
        ClaimLevel,
        cto_contract::claim::ClaimKind,
        SandboxClass,
        SandboxChoice,
        NetworkClass,
        HistoryClass,
        DirtySource,
        RiskClass,
        Action,
        EscalationPath,
        Actor,
        Step,
        EventType,
        ChangeKind,
        Scope,
        cto_contract::verification::CanaryStatus,
        cto_contract::verification::CheckRoom,
        cto_contract::trust::Origin,
        cto_contract::order::EventProblem,
        cto_contract::verify::VerifyCode,
        cto_contract::verify::VerifyCheck,
        cto_contract::eligibility::Gate,
        cto_contract::eligibility::GateOutcome,
        cto_contract::admission::AdmissionKind,
        cto_contract::admission::AdmissionStatus,
        cto_contract::admission::DecisionStatus,
        cto_contract::admission::ProviderClass,
        cto_contract::admission::SourceKind,
        cto_contract::admission::Registry,
        cto_contract::admission::ExecutionMode,
        cto_contract::landing::Disposal,
        cto_contract::landing::LandingAct,
        cto_contract::landing::LandingEnd,
        cto_contract::addendum::AddendumKind,
        cto_contract::addendum::ProofFile,
        cto_contract::addendum::Outcome,
        cto_contract::ledger::RecordKind,
        artifact::FreshnessSource,
        cto_contract::plan::TreeKind,
        cto_contract::plan::LimitSource,
        cto_contract::plan::SettingSource,
        cto_contract::plan::HiddenReason,
    );
    writeln!(out, "artifacts: {}", artifact::REQUIRED.join(" ")).unwrap();
    writeln!(out, "stage proofs: {}", artifact::STAGE_PROOFS.join(" ")).unwrap();
    for lane in Lane::ALL {
        writeln!(
            out,
            "gates of {lane}: {:?} {:?}",
            lane.gate(),
            lane.stage_gate()
        )
        .unwrap();
    }
    for stage in Stage::all() {
        writeln!(out, "stage {stage}: {} ({})", stage.scope(), stage.mode()).unwrap();
    }
    for code in BlockerCode::ALL {
        let row = code.row();
        writeln!(
            out,
            "{code}: {} at {} marker {} fixture {} reason {:?}",
            row.status,
            row.event.map_or("-", EventType::as_str),
            row.marker.unwrap_or("-"),
            row.fixture,
            row.reason
        )
        .unwrap();
    }
    insta::assert_snapshot!(out);
}

#[test]
fn an_active_default_is_unreadable() {
    assert!(serde_json::from_str::<NeverActive>("false").is_ok());
    for bad in ["true", "null", "\"false\"", "0"] {
        assert!(serde_json::from_str::<NeverActive>(bad).is_err(), "{bad}");
    }
}

#[test]
fn field_names_are_frozen() {
    use cto_contract::schemars::{JsonSchema, schema_for};

    fn fields<T: JsonSchema>() -> String {
        let schema = serde_json::to_value(schema_for!(T)).unwrap();
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        names
            .into_iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ")
    }
    let mut out = String::new();
    macro_rules! list {
        ($($ty:ty),+ $(,)?) => {$(
            writeln!(out, "{}: {}", stringify!($ty).rsplit("::").next().unwrap().trim(), fields::<$ty>()).unwrap();
        )+};
    }
    list!(
        cto_contract::report::Report,
        cto_contract::report::Resources,
        cto_contract::report::SandboxSection,
        cto_contract::comparison::BaselineComparison,
        cto_contract::event::RunEvent,
        cto_contract::task::TaskContract,
        cto_contract::task::Limits,
        cto_contract::case::CaseFile,
        cto_contract::eligibility::EligibilityDecision,
        cto_contract::eligibility::Fact,
        cto_contract::eligibility::DeniedBackend,
        cto_contract::identity::Identity,
        cto_contract::identity::LaunchRecord,
        cto_contract::plan::LaunchPlan,
        cto_contract::landing::LandingPlan,
        cto_contract::landing::DisposableProof,
        cto_contract::landing::OwnedProof,
        cto_contract::verification::Verification,
        cto_contract::verification::CommandResult,
        cto_contract::attestation::Envelope,
        cto_contract::attestation::Statement,
        cto_contract::attestation::Predicate,
        cto_contract::addendum::Addendum,
        cto_contract::tombstone::Tombstone,
        cto_contract::trust::TrustedKey,
        cto_contract::claim::Claim,
        cto_contract::order::EventFault,
        cto_contract::verify::VerifyReport,
        cto_contract::config::HarnessConfig,
        cto_contract::artifact::Freshness,
        cto_contract::trace::TraceEntry,
    );
    insta::assert_snapshot!(out);
}
