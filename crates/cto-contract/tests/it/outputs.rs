//! Freezes the names in what commands print: programs and pages read them.

use std::fmt::Write as _;

use cto_contract::outputs::*;
use cto_contract::schemars::{JsonSchema, schema_for};

#[test]
fn output_names_are_frozen() {
    fn fields<T: JsonSchema>() -> String {
        let schema = serde_json::to_value(schema_for!(T)).unwrap();
        let names: Vec<&str> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        names.join(" ")
    }

    let mut out = String::new();
    macro_rules! words {
        ($($ty:ty),+ $(,)?) => {$(
            let words: Vec<&str> = <$ty>::ALL.iter().map(|v| v.as_str()).collect();
            writeln!(out, "{}: {}", stringify!($ty), words.join(" ")).unwrap();
        )+};
    }
    words!(
        BehaviourStatus,
        CommitAnswer,
        ExportKind,
        Health,
        HealthStatus,
        ItemKind,
        RecoveredAs,
        SubjectKind,
    );
    macro_rules! documents {
        ($($tag:ty, $ty:ty);+ $(;)?) => {$(
            writeln!(out, "{}: {}", <$tag>::VALUE, fields::<$ty>()).unwrap();
        )+};
    }
    documents!(
        ApplyTag, ApplyOutput;
        CaseTag, CaseOutput;
        CasesTag, CasesOutput;
        CheckpointTag, CheckpointOutput;
        ConfigTag, ConfigOutput;
        DiffTag, DiffOutput;
        DoctorTag, DoctorOutput;
        EngineChangeTag, EngineChangeOutput;
        EnginesTag, EnginesOutput;
        ExplainTag, ExplainOutput;
        ExportTag, ExportOutput;
        GateTag, GateOutput;
        GcTag, GcOutput;
        HealthTag, HealthOutput;
        ImportTag, ImportOutput;
        KeyTag, KeyOutput;
        LadderTag, LadderOutput;
        LedgerCheckTag, LedgerCheckOutput;
        LogsTag, LogsOutput;
        MatrixTag, MatrixOutput;
        OperatorsTag, OperatorsOutput;
        PlanTag, PlanOutput;
        RecoverTag, RecoverOutput;
        StatusTag, StatusOutput;
        VerifyCommitTag, VerifyCommitOutput;
        ReleaseTag, ReleaseOutput;
        ReplayTag, ReplayOutput;
        SchemasTag, SchemasOutput;
        SignedDecisionTag, SignedDecisionOutput;
        SigningTag, SigningOutput;
        StopTag, StopOutput;
        TextTag, TextOutput;
        TrustTag, TrustOutput;
        TrustListTag, TrustListOutput;
        TrustRepairTag, TrustRepairOutput;
        ValidateFailuresTag, ValidateFailuresOutput;
        ValidateProviderAdapterTag, ValidateProviderAdapterOutput;
        ValidateRedteamTag, ValidateRedteamOutput;
        WhyTag, WhyOutput;
        WrittenTag, WrittenOutput;
    );
    macro_rules! rows {
        ($($ty:ty),+ $(,)?) => {$(
            writeln!(out, "{}: {}", stringify!($ty), fields::<$ty>()).unwrap();
        )+};
    }
    rows!(
        CaseRow,
        CheckedBehaviour,
        CheckedRow,
        Checks,
        ConfigValue,
        DoctorCheck,
        EngineRow,
        ErrorBody,
        ErrorOutput,
        ExplainedBlocker,
        ExplainedCheck,
        ExplainedClaim,
        GcItem,
        GcKept,
        GcProblem,
        HealthPart,
        LadderRow,
        LadderStage,
        LedgerFinding,
        LogFile,
        MatrixCounts,
        MatrixRun,
        NotCovered,
        NotTried,
        OperatorRow,
        RecoveredRun,
        SchemaRow,
        WaitingSlot,
    );
    insta::assert_snapshot!(out);
}
