//! Every JSON Schema by name: outputs of commands and pages, and formats of files.

use cto_contract::outputs as out;
use cto_contract::schemars::{self, JsonSchema, Schema, SchemaGenerator};

/// One schema.
pub struct Entry {
    pub name: &'static str,
    pub about: &'static str,
    make: fn() -> Schema,
}

impl Entry {
    /// The schema itself, as a JSON value.
    pub fn schema(&self) -> serde_json::Value {
        let mut value = (self.make)().to_value();
        if let Some(object) = value.as_object_mut() {
            object.insert(
                "$id".to_owned(),
                format!("urn:cto:schema:{}", self.name).into(),
            );
            object.insert("title".to_owned(), self.about.into());
        }
        value
    }
}

/// As written, not as read: every field that is always there is required.
fn written<T: JsonSchema>() -> Schema {
    generator(schemars::generate::SchemaSettings::draft2020_12().for_serialize())
        .into_root_schema_for::<T>()
}

/// As read: fields with a default may be left out.
fn read<T: JsonSchema>() -> Schema {
    generator(schemars::generate::SchemaSettings::draft2020_12().for_deserialize())
        .into_root_schema_for::<T>()
}

fn generator(settings: schemars::generate::SchemaSettings) -> SchemaGenerator {
    settings.into_generator()
}

macro_rules! registry {
    ($($name:literal $how:ident $ty:ty, $about:literal;)+) => {
        /// All of them, by name.
        pub const ALL: &[Entry] = &[$(Entry { name: $name, about: $about, make: $how::<$ty> }),+];
    };
}

registry! {
    "addendum" read cto_contract::addendum::Addendum, "Payload of an addendum beside a pack";
    "admission-binary" read cto_contract::admission::BinaryAdmission, "Admission of an agent's binary";
    "admission-decision" read cto_contract::admission::ProviderDecision, "Decision about a lane's provider";
    "admission-model" read cto_contract::admission::ModelAdmission, "Admission of a provider and its model";
    "admission-source" read cto_contract::admission::SourceAdmission, "Admission of an agent's source";
    "admission-target" read cto_contract::admission::TargetAdmission, "Admission of a target repository";
    "admissions" written out::AdmissionsOutput, "Output of `cto admissions`";
    "admit" written out::AdmitOutput, "Output of `cto admit`";
    "apply" written out::ApplyOutput, "Output of `cto apply`";
    "case" read cto_contract::case::CaseFile, "case.yaml";
    "case-show" written out::CaseOutput, "Output of `cto cases <id>`";
    "cases" written out::CasesOutput, "Output of `cto cases`";
    "checkpoint" read cto_contract::checkpoint::Checkpoint, "Payload of a checkpoint of the ledger";
    "checkpoint-written" written out::CheckpointOutput, "Output of `cto ledger checkpoint`";
    "config" written out::ConfigOutput, "Output of `cto config show`";
    "contract" read cto_contract::task::TaskContract, "task-contract.json";
    "contract-check" written cto_rules::outputs::ContractCheckOutput, "Output of `cto contract check`";
    "decision" written out::DecisionOutput, "Output of `cto approve` and `cto deny`";
    "diff" written out::DiffOutput, "Output of `cto diff`";
    "doctor" written out::DoctorOutput, "Output of `cto doctor`";
    "eligibility" written cto_contract::eligibility::EligibilityDecision, "eligibility.json, and output of `cto route`";
    "engine-change" written out::EngineChangeOutput, "Output of `cto engines allow` and `cto engines deny`";
    "engines" written out::EnginesOutput, "Output of `cto engines`";
    "envelope" written cto_contract::attestation::Envelope, "attestation.dsse.json: the DSSE envelope";
    "error" written out::ErrorOutput, "Any failure under `--json`";
    "event" written cto_contract::event::RunEvent, "One line of events.normalized.jsonl, `cto run --events` and `cto watch`";
    "explain" written out::ExplainOutput, "Output of `cto explain`";
    "export" written out::ExportOutput, "Output of `cto export`";
    "gate" written out::GateOutput, "Output of `cto gate`";
    "gc" written out::GcOutput, "Output of `cto gc`";
    "harness-config" read cto_contract::config::HarnessConfig, "harness.yaml";
    "health" written out::HealthOutput, "Output of `cto health`";
    "import" written out::ImportOutput, "Output of `cto import`";
    "inbox" written out::InboxOutput, "Output of `cto inbox`";
    "index" written cto_store::IndexOutput, "Output of `cto index rebuild`";
    "init" written cto_rules::outputs::InitOutput, "Output of `cto init`";
    "key" written out::KeyOutput, "Output of `cto key`";
    "ladder" written out::LadderOutput, "Output of `cto ladder`";
    "ledger-check" written out::LedgerCheckOutput, "Output of `cto ledger verify`";
    "ledger-release" written out::ReleaseOutput, "Output of `cto ledger release`";
    "logs" written out::LogsOutput, "Output of `cto logs`";
    "matrix" written out::MatrixOutput, "Output of `cto matrix` and its report.json";
    "model-script" read cto_contract::model_script::ModelScript, "A script for `cto model scripted`";
    "operators" written out::OperatorsOutput, "Output of `cto operator list`";
    "outcome" written out::OutcomeOutput, "Output of `cto outcome`";
    "plan" written out::PlanOutput, "Output of `cto run --plan`";
    "receipt" written cto_contract::receipt::Receipt, "Output of `cto verify --receipt`";
    "recover" written out::RecoverOutput, "Output of `cto recover`";
    "replay" written out::ReplayOutput, "Output of `cto replay`";
    "report" written cto_contract::report::Report, "report.json, and output of `cto run` and `cto rerun`";
    "request" written cto_contract::approval::ApprovalRequest, "A request for an approval, as home keeps it";
    "request-show" written out::RequestOutput, "Output of `cto request`, and of `cto run --request` while it waits";
    "run-row" written cto_store::RunRow, "One row of `cto runs`";
    "runs" written cto_store::RunsOutput, "Output of `cto runs`";
    "sandbox-proof" written cto_contract::sandbox::SandboxProof, "backend/sandbox.json";
    "schemas" written out::SchemasOutput, "Output of `cto schema`";
    "scripted-model" written out::ScriptedModelOutput, "Output of `cto model scripted`";
    "show" written out::ShownReport, "Output of `cto show`: report.json, and whose it is";
    "signed-decision" written out::SignedDecisionOutput, "Output of a command that records a decision";
    "signing" written out::SigningOutput, "What is to be signed elsewhere: output of such a command without a key";
    "stage2-no-target-inspection" written cto_contract::stage_proof::NoTargetProof, "stage2-no-target-inspection.json";
    "stage3-copied-repo-proof" written cto_contract::stage_proof::CopiedRepoProof, "stage3-copied-repo-proof.json";
    "stage4-proof" written cto_contract::landing::DisposableProof, "stage4-disposable-sandbox-proof.json";
    "stage5-proof" written cto_contract::landing::OwnedProof, "stage5-owned-repo-proof.json";
    "statement" written cto_contract::attestation::Statement, "Payload of attestation.dsse.json: the in-toto statement";
    "status" written out::StatusOutput, "Output of `cto status`";
    "stop" written out::StopOutput, "Output of `cto stop`";
    "text" written out::TextOutput, "Output of `cto completions` and `cto man`";
    "tombstone" read cto_contract::tombstone::Tombstone, "Payload of a tombstone: what is left of a removed pack";
    "trace" written cto_contract::trace::TraceEntry, "One line of trace.jsonl";
    "trust" read cto_contract::trust::TrustedKey, "A file under trust/harness/";
    "trust-change" written out::TrustOutput, "Output of `cto trust add` and `cto trust revoke`";
    "trust-list" written out::TrustListOutput, "Output of `cto trust list`";
    "trust-repair" written out::TrustRepairOutput, "Output of `cto trust repair`";
    "validate-failures" written out::ValidateFailuresOutput, "Output of `cto validate failures`";
    "validate-provider-adapter" written out::ValidateProviderAdapterOutput, "Output of `cto validate provider-adapter`";
    "validate-redteam" written out::ValidateRedteamOutput, "Output of `cto validate redteam`";
    "validate-stage" written out::ValidateStageOutput, "Output of `cto validate stage1` and so on";
    "verify" written cto_contract::verify::VerifyReport, "Output of `cto verify` and `cto-verify --json`";
    "verify-commit" written out::VerifyCommitOutput, "Output of `cto verify --commit`";
    "why" written out::WhyOutput, "Output of `cto why`";
    "written" written out::WrittenOutput, "Output of `cto schema --all` and `cto man DIR`";
}

/// Finds one by name; some commands print what another name describes.
pub fn find(name: &str) -> Option<&'static Entry> {
    let name = match name {
        "run" | "rerun" | "show" => "report",
        "route" => "eligibility",
        "watch" => "event",
        "attestation" => "envelope",
        "harness" => "harness-config",
        other => other,
    };
    ALL.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_every_schema_is_an_object() {
        assert!(ALL.is_sorted_by(|a, b| a.name < b.name));
        for entry in ALL {
            assert!(entry.schema().is_object(), "{}", entry.name);
        }
    }
}
