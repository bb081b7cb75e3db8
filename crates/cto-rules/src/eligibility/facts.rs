//! Everything that a decision may look at: what is there from the beginning, and what must be looked up.

use std::collections::{BTreeMap, BTreeSet};

use cto_contract::admission::TargetAdmission;
use cto_contract::config::GateConfig;
use cto_contract::event::ProviderFault;
use cto_contract::ids::Digest;
use cto_contract::task::TaskContract;
use cto_contract::text;
use cto_contract::time::Utc;
use cto_contract::wire_enum;
use cto_contract::words::{Lane, SandboxClass, Stage};

use crate::admission::{ModelRequest, NamedRecord, ProgramSeen, Records};
use crate::standing::{FileState, LedgerFacts};

use crate::approval::ApprovalRefusal;

wire_enum! {
    /// A fact that must be looked up, in the order in which they are asked for.
    pub enum Probe {
        EvidenceInterface = "evidence_interface",
        Ledger = "ledger",
        Trust = "trust",
        Program = "program",
        Confinement = "confinement",
        ModelEndpoint = "model_endpoint",
        ModelAccess = "model_access",
        Repository = "repository",
        StartTree = "start_tree",
        /// Last of all: it asks somebody outside.
        ModelAnswer = "model_answer",
    }
}

/// What is known without looking: what the contract, the request, the environment and the records say.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub contract: TaskContract,
    pub contract_digest: Digest,
    pub lane: Lane,
    /// The stage that was asked for by name.
    pub stage: Option<Stage>,
    pub work: Work,
    /// A lane that is not in it has nothing in its favour.
    pub lanes: BTreeMap<Lane, LaneSettings>,
    /// What people let in.
    pub records: Records,
    /// Where the repository lies that the work is done on, with no link left in it; none for a case.
    pub target_path: Option<String>,
    pub approval: ApprovalState,
    /// Caps of the contract that nobody could hold while a model is asked, by name.
    pub unmeterable: Vec<String>,
    /// How the bridge for short-lived keys stands; none where the admitted provider needs none.
    pub auth_bridge: Option<AuthBridge>,
    /// Whether the model is asked before a start: whoever only wants a plan asks nobody.
    pub asks_model: bool,
    /// What the sandbox does is only known by starting something in it.
    pub confinement_by_trial: bool,
    pub at: Utc,
}

/// What the work is done on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A case, which has its own small tree.
    Case,
    Repository,
}

/// What environment, config and records say about a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneSettings {
    /// The value of its gate in the environment.
    pub gate: Option<String>,
    /// The value of its stage gate in the environment.
    pub stage: Option<String>,
    /// What the config opens of it, where the environment says nothing.
    pub config: GateConfig,
    /// This build has an adapter for it.
    pub is_built_in: bool,
    pub is_disabled: bool,
    /// The model that the environment asks for.
    pub model: ModelRequest,
    /// The admission of a target that the environment names; that file alone counts then.
    pub target: Option<NamedRecord<TargetAdmission>>,
}

impl LaneSettings {
    /// Nothing is set.
    pub const NOTHING: Self = Self {
        gate: None,
        stage: None,
        config: GateConfig {
            allow: false,
            stage: None,
        },
        is_built_in: false,
        is_disabled: false,
        model: ModelRequest::NOTHING,
        target: None,
    };
}

/// Where the approval stands, if one is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalState {
    /// No request was named.
    None,
    /// There is a grant; whether it is for this run is found out when it is used up.
    Granted,
    /// What stands against it before anything is looked at.
    Refused(ApprovalRefusal),
}

/// What will hold a process of this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confinement {
    pub class: SandboxClass,
    /// The agent can be given the one address of its model, in a network of its own.
    pub has_endpoint: bool,
}

/// What the environment says about the lane's model. The address itself is never told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointState {
    Named,
    /// A program of the operator's will tell.
    ByCommand,
    Absent,
    /// What is wrong with it.
    Invalid(String),
}

/// Whether the lane's model can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessState {
    Open,
    KeyUnavailable(String),
    /// Whoever should tell the endpoint did not.
    NoEndpoint(String),
    Unusable(String),
}

/// The switch that lets short-lived keys of a login be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthBridge {
    /// Its environment name.
    pub name: String,
    pub value: Option<String>,
    /// Something gives out the keys.
    pub has_command: bool,
}

/// What a model said to one small question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerState {
    Answered {
        model: String,
        /// By its own word.
        by: Option<String>,
    },
    Fault(ProviderFault),
    /// This machine could not ask.
    NotAsked(String),
}

/// Whether a repository can be copied from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepositoryState {
    Usable,
    /// Not the operator's own: what is wrong.
    NotOwned(String),
    /// The kind by name, and what it is about.
    Unsupported(String),
}

/// What of the source is not committed: tracked paths that changed, and untracked ones that are not ignored. The file
/// of the contract does not count, wherever it lies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StartTree {
    /// The first of the paths.
    pub paths: Vec<String>,
    /// How many there are.
    pub count: u64,
}

impl StartTree {
    /// Most paths that are named.
    pub const PATHS_MAX: usize = 100;

    /// Takes all paths that differ from the commit; `contract` is the path of the contract if it lies in the repository.
    pub fn new<'a>(dirty: impl IntoIterator<Item = &'a [u8]>, contract: Option<&[u8]>) -> Self {
        let mut tree = Self::default();
        for path in dirty.into_iter().filter(|path| Some(*path) != contract) {
            tree.count += 1;
            if tree.paths.len() < Self::PATHS_MAX {
                tree.paths.push(text::path_text(path));
            }
        }
        tree
    }

    pub const fn is_clean(&self) -> bool {
        self.count == 0
    }
}

/// A value and when it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<T> {
    pub value: T,
    pub at: Utc,
}

/// The files of trust and what became of each, or why nobody can say.
pub type TrustFiles = Result<Vec<(String, FileState)>, String>;

/// Why no pack could be made that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoEvidence {
    /// It could not be written, for this reason.
    Unwritable(String),
    /// By this machine's clock the key that seals does not count yet: nobody could tell the pack from one whose date is forged.
    ClockBeforeKey { now: Utc, counts_from: Utc },
}

/// What was looked up so far, one field for each probe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LookedUp {
    /// Why a pack could not be written or signed, if so.
    pub evidence_interface: Option<Seen<Result<(), NoEvidence>>>,
    /// The ledger against its checkpoints, or why nobody can say.
    pub ledger: Option<Seen<Result<LedgerFacts, String>>>,
    /// The files of trust against the ledger, or why nobody can say.
    pub trust: Option<Seen<TrustFiles>>,
    /// The lane's program, as it lies there; none where it is missing.
    pub program: Option<Seen<Option<ProgramSeen>>>,
    pub confinement: Option<Seen<Result<Confinement, String>>>,
    pub model_endpoint: Option<Seen<EndpointState>>,
    pub model_access: Option<Seen<AccessState>>,
    pub repository: Option<Seen<RepositoryState>>,
    pub start_tree: Option<Seen<StartTree>>,
    pub model_answer: Option<Seen<AnswerState>>,
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    EvidenceInterface(Result<(), NoEvidence>),
    Ledger(Result<LedgerFacts, String>),
    Trust(TrustFiles),
    Program(Option<ProgramSeen>),
    Confinement(Result<Confinement, String>),
    ModelEndpoint(EndpointState),
    ModelAccess(AccessState),
    Repository(RepositoryState),
    StartTree(StartTree),
    ModelAnswer(AnswerState),
}

/// The facts of a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub asked: Asked,
    pub looked_up: LookedUp,
    left_out: BTreeSet<Probe>,
}

impl Facts {
    pub fn new(asked: Asked) -> Self {
        Self {
            asked,
            looked_up: LookedUp::default(),
            left_out: BTreeSet::new(),
        }
    }

    /// Takes what a probe found.
    pub fn learn(&mut self, answer: Answer, at: Utc) {
        fn seen<T>(value: T, at: Utc) -> Option<Seen<T>> {
            Some(Seen { value, at })
        }
        let facts = &mut self.looked_up;
        match answer {
            Answer::EvidenceInterface(found) => facts.evidence_interface = seen(found, at),
            Answer::Ledger(found) => facts.ledger = seen(found, at),
            Answer::Trust(found) => facts.trust = seen(found, at),
            Answer::Program(found) => facts.program = seen(found, at),
            Answer::Confinement(found) => facts.confinement = seen(found, at),
            Answer::ModelEndpoint(found) => facts.model_endpoint = seen(found, at),
            Answer::ModelAccess(found) => facts.model_access = seen(found, at),
            Answer::Repository(found) => facts.repository = seen(found, at),
            Answer::StartTree(found) => facts.start_tree = seen(found, at),
            Answer::ModelAnswer(found) => facts.model_answer = seen(found, at),
        }
    }

    /// Says that nobody will look: the gate stays unknown, and an unknown gate lets nothing through.
    pub fn leave_out(&mut self, probe: Probe) {
        self.left_out.insert(probe);
    }

    pub(super) fn is_left_out(&self, probe: Probe) -> bool {
        self.left_out.contains(&probe)
    }
}

impl Asked {
    /// Whether looking starts something, or looks at the target.
    pub(super) fn is_dear(&self, probe: Probe) -> bool {
        match probe {
            Probe::EvidenceInterface
            | Probe::Ledger
            | Probe::Trust
            | Probe::Program
            | Probe::ModelEndpoint => false,
            Probe::Confinement => self.confinement_by_trial,
            Probe::ModelAccess | Probe::Repository | Probe::StartTree | Probe::ModelAnswer => true,
        }
    }
}
