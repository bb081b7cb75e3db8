//! The closed sets of words that reports, events and contracts are written in.

use crate::admission::AdmissionKind;
use crate::lanes::Gating;
use crate::text;

/// A word that is not in its closed set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown value `{shown}`, expected one of {expected}")]
pub struct UnknownWord {
    shown: String,
    expected: String,
}

impl UnknownWord {
    /// Names the word and the set it is not in.
    pub fn new<'a>(word: &str, expected: impl Iterator<Item = &'a str>) -> Self {
        Self {
            shown: text::shorten(word, 60),
            expected: expected.collect::<Vec<_>>().join(", "),
        }
    }
}

wire_enum! {
    /// What a run showed. No human changes it.
    pub enum RunStatus { Pass = "pass", Fail = "fail", Blocked = "blocked" }
}
wire_enum! {
    /// One way to execute a task.
    pub enum Lane {
        /// Deterministic: applies the case's own change.
        Fake = "fake",
        Command = "command",
        Case = "case",
        Codex = "codex",
        Pi = "pi",
        Claude = "claude",
        Acp = "acp",
    }
}
wire_enum! {
    /// A way to talk to a model: which calls, and what a request and an answer look like.
    pub enum Wire {
        ChatCompletions = "chat_completions",
        Responses = "responses",
        Messages = "messages",
    }
}
wire_enum! {
    /// How far a run may write. Ordered: a later one allows more.
    pub enum MutationMode {
        None = "none",
        CopiedFixture = "copied-fixture",
        SandboxRepo = "sandbox-repo",
        OwnedNoncriticalRepo = "owned-noncritical-repo",
        CandidateDefault = "candidate-default",
    }
}
wire_enum! {
    /// Who or what is at fault when a run did not pass.
    pub enum FaultClass { None = "none", Agent = "agent", Environment = "environment", Harness = "harness", Operator = "operator" }
}
wire_enum! {
    /// How the backend's process came to its end.
    pub enum BackendCompletion { Own = "own", Harness = "harness", Signal = "signal", None = "none" }
}
wire_enum! {
    /// Where the approval of a run stands.
    pub enum ApprovalStatus { NotRequired = "not-required", Requested = "requested", Granted = "granted", Denied = "denied" }
}
wire_enum! {
    /// Whether the source of a lane is admitted.
    pub enum SourceAdmissionStatus { Admitted = "admitted", NotAdmitted = "not_admitted", Stale = "stale" }
}
wire_enum! {
    /// Whether the pair of provider and model that was asked for is admitted.
    pub enum ModelAdmissionStatus {
        Admitted = "admitted",
        MissingAdmission = "missing_admission",
        Mismatch = "mismatch",
        InvalidAdmission = "invalid_admission",
        NotAdmitted = "not_admitted",
    }
}
wire_enum! {
    /// Whether a target repository is admitted.
    pub enum TargetAdmissionStatus {
        Admitted = "admitted",
        Missing = "missing",
        Invalid = "invalid",
        NotAdmitted = "not_admitted",
        Stale = "stale",
    }
}
wire_enum! {
    /// Whether an operator signed the records that a run was admitted by.
    pub enum AdmissionSeal { Unsigned = "unsigned", Signed = "signed" }
}
wire_enum! {
    /// What a signature shows of the person behind it: verified, touched, by the enrolment's word, or nothing.
    pub enum Presence { Uv = "uv", Up = "up", Claimed = "claimed", None = "none" }
}
wire_enum! {
    /// Where a key lives.
    pub enum Custody { Unattested = "unattested", Synced = "synced", File = "file" }
}
wire_enum! {
    /// Operator outcome as a sealed report may show it; the outcome itself is an addendum.
    pub enum OutcomeState { NotRequired = "not-required", Pending = "pending" }
}
wire_enum! {
    /// How well a claim is supported. Ordered from nothing to proof.
    pub enum ClaimLevel { Absent = "absent", SelfReported = "self_reported", Inferred = "inferred", Verified = "verified" }
}
wire_enum! {
    /// How strongly a process was confined. Ordered; `process` and below never prove and never land.
    pub enum SandboxClass {
        None = "none",
        /// Process group and subreaper only: the kernel refused namespaces.
        Group = "group",
        Weak = "weak",
        /// Own namespaces and a built environment, but the file system of the host.
        Process = "process",
        Full = "full",
    }
}
wire_enum! {
    /// Who is asked to confine a run.
    pub enum SandboxChoice { Native = "native", Bwrap = "bwrap", Podman = "podman", Docker = "docker", None = "none" }
}
wire_enum! {
    /// Whether a contract allows the backend a network.
    pub enum NetworkClass { None = "none", Model = "model" }
}
wire_enum! {
    /// Whether a task may start from a source with uncommitted changes. One that may never counts as a proof.
    pub enum DirtySource { Refused = "refused", Allowed = "allowed" }
}
wire_enum! {
    /// How much history the workspace's repository carries.
    pub enum HistoryClass { None = "none", Ancestors = "ancestors" }
}
wire_enum! {
    /// Risk of the thing that is changed. The last six are known only to be refused by name.
    pub enum RiskClass {
        Artificial = "artificial",
        Copied = "copied",
        Disposable = "disposable",
        LowRiskNoncritical = "low_risk_noncritical",
        Production = "production",
        Critical = "critical",
        Customer = "customer",
        Vendor = "vendor",
        ExternalDeveloper = "external_developer",
        Unowned = "unowned",
    }
}
wire_enum! {
    /// The ten actions that no run may take unless its contract permits one by name.
    pub enum Action {
        Push = "push",
        Merge = "merge",
        Deploy = "deploy",
        Close = "close",
        PrOpen = "pr_open",
        IssueClose = "issue_close",
        PublicPublication = "public_publication",
        CredentialChange = "credential_change",
        VendorSourceMutation = "vendor_source_mutation",
        CortexCoreMutation = "cortex_core_mutation",
    }
}
wire_enum! {
    /// Where a blocked decision goes next.
    pub enum EscalationPath { Operator = "operator", CoreRoute = "core_route", Blocked = "blocked" }
}

wire_const! {
    /// `runtime_default_activation`: false in every document, and every reader rejects another value.
    pub struct NeverActive: bool = false
}
wire_const! {
    /// `core_promotion_status`: no run promotes anything.
    pub struct NotPromoted: &'static str = "not-promoted"
}

impl RunStatus {
    /// The exit code of `cto run`.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Blocked => 3,
        }
    }
}

impl RiskClass {
    /// True for the classes that are refused wherever they are named.
    pub const fn is_protected(self) -> bool {
        match self {
            Self::Artificial | Self::Copied | Self::Disposable | Self::LowRiskNoncritical => false,
            Self::Production
            | Self::Critical
            | Self::Customer
            | Self::Vendor
            | Self::ExternalDeveloper
            | Self::Unowned => true,
        }
    }
}

impl Lane {
    /// The environment name that opens the lane; `fake` has none and is always the default.
    pub fn gate(self) -> Option<String> {
        match self.traits().gating {
            Gating::Open => None,
            Gating::Environment | Gating::EnvironmentOrConfig => Some(format!(
                "CTO_HARNESS_ALLOW_{}",
                self.as_str().to_ascii_uppercase()
            )),
        }
    }

    /// The environment name that opens a stage of the lane.
    pub fn stage_gate(self) -> Option<String> {
        self.gate()
            .map(|_| format!("CTO_HARNESS_{}_STAGE", self.as_str().to_ascii_uppercase()))
    }

    /// The environment name that holds the base URL of the lane's model; `fake` asks no model.
    pub fn base_url(self) -> Option<String> {
        self.gate().map(|_| {
            format!(
                "CTO_HARNESS_{}_LOCAL_BASE_URL",
                self.as_str().to_ascii_uppercase()
            )
        })
    }

    /// The environment name that opens the bridge for short-lived keys of a login.
    pub fn auth_bridge(self) -> Option<String> {
        self.gate().map(|_| {
            format!(
                "CTO_HARNESS_{}_OPENAI_CODEX_AUTH_BRIDGE",
                self.as_str().to_ascii_uppercase()
            )
        })
    }

    /// The environment name that chooses one of the config's `providers`.
    pub fn model_provider(self) -> Option<String> {
        self.gate().map(|_| {
            format!(
                "CTO_HARNESS_{}_MODEL_PROVIDER",
                self.as_str().to_ascii_uppercase()
            )
        })
    }

    /// The environment name that asks for a model.
    pub fn model(self) -> Option<String> {
        self.gate()
            .map(|_| format!("CTO_HARNESS_{}_MODEL", self.as_str().to_ascii_uppercase()))
    }

    /// The environment name of a file that alone says what is admitted, instead of the records of the config directory.
    pub fn admission_file(self, kind: AdmissionKind) -> Option<String> {
        let what = match kind {
            AdmissionKind::Source => "SOURCE_ADMISSION_FILE",
            AdmissionKind::Binary => "BINARY_ADMISSION_FILE",
            AdmissionKind::Model => "MODEL_ADMISSION_FILE",
            AdmissionKind::Decision => "PROVIDER_DECISION_FILE",
            AdmissionKind::Target => "STAGE5_TARGET_ADMISSION_FILE",
        };
        let lane = self.as_str().to_ascii_uppercase();
        self.gate().map(|_| format!("CTO_HARNESS_{lane}_{what}"))
    }
}

/// One of the six proof stages.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Stage(#[schemars(range(min = 1, max = 6))] u8);

impl Stage {
    /// The stage of shipped cases: a copied artificial fixture.
    pub const FIXTURE: Self = Self(2);

    /// Work on a copy of a repository: the last where nothing lands.
    pub const COPIED_REPOSITORY: Self = Self(3);

    /// The first where a change lands, in a repository that is thrown away.
    pub const DISPOSABLE: Self = Self(4);

    /// The first where a change lands in a repository that its owner uses.
    pub const OWNED: Self = Self(5);

    /// The first: gates only, no process.
    pub const FIRST: Self = Self(1);

    /// All six, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..=6).map(Self)
    }

    /// The digit.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The literal mutation scope of the stage.
    pub const fn scope(self) -> &'static str {
        match self.0 {
            1 => "none",
            2 => "copied artificial case only",
            3 => "copied local repository fixture only",
            4 => "disposable repository only",
            5 => "explicitly owned low-risk repository only",
            _ => "scoped real-repo use only",
        }
    }

    /// The mutation mode of the stage.
    pub const fn mode(self) -> MutationMode {
        match self.0 {
            1 => MutationMode::None,
            2 | 3 => MutationMode::CopiedFixture,
            4 => MutationMode::SandboxRepo,
            5 => MutationMode::OwnedNoncriticalRepo,
            _ => MutationMode::CandidateDefault,
        }
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl TryFrom<u8> for Stage {
    type Error = UnknownWord;
    fn try_from(number: u8) -> Result<Self, UnknownWord> {
        match number {
            1..=6 => Ok(Self(number)),
            _ => Err(UnknownWord::new(
                &number.to_string(),
                ["1", "2", "3", "4", "5", "6"].into_iter(),
            )),
        }
    }
}

impl<'de> serde::Deserialize<'de> for Stage {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(u8::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
