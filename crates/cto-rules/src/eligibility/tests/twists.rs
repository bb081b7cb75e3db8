//! Everything that can be wrong with a fact, one gate each.

use cto_contract::admission::{AdmissionStatus, DecisionStatus, ExecutionMode};
use cto_contract::blocker::BlockerCode;
use cto_contract::event::ProviderFault;
use cto_contract::words::{AdmissionSeal, RiskClass, SandboxClass};

use crate::approval::ApprovalRefusal;

use super::*;
use crate::admission::{NamedRecord, ProgramSeen};
use crate::standing::FileState;

/// Something that is wrong with one gate's fact.
#[derive(Debug, Clone, Copy)]
pub(super) enum Twist {
    /// The code of the refusal that follows where the gate is required.
    Fault(BlockerCode, fn(&mut Facts)),
    /// The same at these stages; at others it does not matter.
    FaultAt(BlockerCode, (u8, u8), fn(&mut Facts)),
    /// It was not looked up.
    Unseen(Probe, fn(&mut LookedUp)),
}

impl Twist {
    pub(super) fn apply(self, facts: &mut Facts) {
        match self {
            Self::Fault(_, spoil) | Self::FaultAt(_, _, spoil) => spoil(facts),
            Self::Unseen(_, forget) => forget(&mut facts.looked_up),
        }
    }

    pub(super) fn is_fault(self) -> bool {
        match self {
            Self::Fault(..) | Self::FaultAt(..) => true,
            Self::Unseen(..) => false,
        }
    }
}

/// Learns an answer that spoils a gate.
macro_rules! found {
    ($answer:expr) => {
        |facts| facts.learn($answer, now())
    };
}

/// A day for the review that has passed.
const OVERDUE: &str = "review by 2026-05-31";

const WEAK: Confinement = Confinement {
    class: SandboxClass::Weak,
    has_endpoint: false,
};

/// Everything that can be wrong, one gate each. A new gate needs a row here.
pub(super) const TWISTS: &[(Gate, Twist)] = {
    use BlockerCode as B;
    use Gate as G;
    use Twist::{Fault, FaultAt, Unseen};
    &[
        (
            G::LaneGate,
            Fault(B::GateMissing, |f| settings(f).gate = None),
        ),
        (
            G::LaneGate,
            Fault(B::GateMissing, |f| {
                settings(f).gate = Some("true".to_owned())
            }),
        ),
        (
            G::StageGate,
            Fault(B::StageGateMissing, |f| settings(f).stage = None),
        ),
        (
            G::StageGate,
            Fault(B::StageGateMissing, |f| {
                settings(f).stage = Some("02".to_owned());
            }),
        ),
        (
            G::LaneAvailable,
            Fault(B::ProviderUnavailable, |f| settings(f).is_disabled = true),
        ),
        (
            G::LaneAvailable,
            Fault(B::ProviderUnavailable, |f| settings(f).is_built_in = false),
        ),
        (
            G::SourceAdmission,
            Fault(B::SourceNotAdmitted, |f| f.asked.records.sources.clear()),
        ),
        (
            G::SourceAdmission,
            Fault(B::SourceNotAdmitted, |f| {
                f.asked
                    .records
                    .sources
                    .iter_mut()
                    .for_each(|s| s.record.status = AdmissionStatus::NotAdmitted);
            }),
        ),
        (
            G::SourceAdmission,
            Fault(B::SourceNotAdmitted, |f| {
                f.asked.records.sources.iter_mut().for_each(|s| {
                    s.record.allowed_execution_modes = [ExecutionMode::PlanningOnly].into()
                });
            }),
        ),
        (
            G::SourceAdmission,
            FaultAt(B::SourceNotAdmitted, (5, 6), |f| {
                f.asked
                    .records
                    .sources
                    .iter_mut()
                    .for_each(|s| s.record.licence_note = "unresolved".parse().unwrap());
            }),
        ),
        (
            G::SourceAdmission,
            FaultAt(B::SourceNotAdmitted, (4, 6), |f| {
                f.asked
                    .records
                    .sources
                    .iter_mut()
                    .for_each(|s| s.seal = AdmissionSeal::Unsigned);
            }),
        ),
        (
            G::SourceAdmission,
            Fault(B::SourceNotAdmitted, |f| {
                f.asked
                    .records
                    .sources
                    .iter_mut()
                    .for_each(|s| s.record.review_trigger = OVERDUE.parse().unwrap());
            }),
        ),
        (
            G::BinaryAdmission,
            Fault(B::BinaryNotAdmitted, |f| f.asked.records.binaries.clear()),
        ),
        (
            G::BinaryAdmission,
            Fault(B::BinaryNotAdmitted, |f| {
                f.asked
                    .records
                    .binaries
                    .iter_mut()
                    .for_each(|s| s.record.status = AdmissionStatus::NotAdmitted);
            }),
        ),
        (
            G::BinaryAdmission,
            FaultAt(B::BinaryNotAdmitted, (4, 6), |f| {
                f.asked
                    .records
                    .binaries
                    .iter_mut()
                    .for_each(|s| s.seal = AdmissionSeal::Unsigned);
            }),
        ),
        (
            G::BinaryAdmission,
            Fault(B::BinaryNotAdmitted, found!(Answer::Program(None))),
        ),
        (
            G::BinaryAdmission,
            Fault(
                B::BinaryNotAdmitted,
                found!(Answer::Program(Some(ProgramSeen {
                    digest: "ff".repeat(32).parse().unwrap(),
                    ..records::program()
                }))),
            ),
        ),
        (
            G::BinaryAdmission,
            Fault(
                B::BinaryNotAdmitted,
                found!(Answer::Program(Some(ProgramSeen {
                    package: Some("ff".repeat(32).parse().unwrap()),
                    ..records::program()
                }))),
            ),
        ),
        (
            G::BinaryAdmission,
            Fault(
                B::BinaryNotAdmitted,
                found!(Answer::Program(Some(ProgramSeen {
                    interpreter: Some("ff".repeat(32).parse().unwrap()),
                    ..records::program()
                }))),
            ),
        ),
        (
            G::BinaryAdmission,
            Fault(
                B::BinaryNotAdmitted,
                found!(Answer::Program(Some(ProgramSeen {
                    is_temporary: true,
                    ..records::program()
                }))),
            ),
        ),
        (
            G::BinaryAdmission,
            Unseen(Probe::Program, |seen| seen.program = None),
        ),
        (
            G::ModelAdmission,
            Fault(B::ModelNotAdmitted, |f| f.asked.records.models.clear()),
        ),
        (
            G::ModelAdmission,
            Fault(B::ModelNotAdmitted, |f| {
                f.asked
                    .records
                    .models
                    .iter_mut()
                    .for_each(|s| s.record.status = AdmissionStatus::NotAdmitted);
            }),
        ),
        (
            G::ModelAdmission,
            Fault(B::ModelNotAdmitted, |f| {
                f.asked
                    .records
                    .models
                    .iter_mut()
                    .for_each(|s| s.record.review_trigger = OVERDUE.parse().unwrap());
            }),
        ),
        (
            G::ModelAdmission,
            Fault(B::ModelNotAdmitted, |f| {
                settings(f).model.model = Some("another".to_owned());
            }),
        ),
        (
            G::ModelAdmission,
            Fault(B::ModelAdmissionMismatch, |f| {
                settings(f).model.provider = Some("another".to_owned());
                let record = Box::new(records::model());
                settings(f).model.file = Some(NamedRecord::Record(record));
            }),
        ),
        (
            G::ModelAdmission,
            Fault(B::ModelAdmissionInvalid, |f| {
                let why = "x.json:3:1: unknown field".to_owned();
                settings(f).model.file = Some(NamedRecord::Invalid(why));
            }),
        ),
        (
            G::ProviderDecision,
            Fault(B::ProviderDecisionMissing, |f| {
                f.asked.records.decisions.clear();
            }),
        ),
        (
            G::ProviderDecision,
            Fault(B::ProviderDecisionMissing, |f| {
                f.asked
                    .records
                    .decisions
                    .iter_mut()
                    .for_each(|s| s.record.decision_status = DecisionStatus::NotDecided);
            }),
        ),
        (
            G::ProviderDecision,
            Fault(B::ProviderDecisionMissing, |f| {
                f.asked
                    .records
                    .decisions
                    .iter_mut()
                    .for_each(|s| s.record.model = "another".parse().unwrap());
            }),
        ),
        (
            G::AllowedPaths,
            Fault(B::AllowedPathsMissing, |f| {
                f.asked.contract.allowed_paths.clear();
            }),
        ),
        (
            G::ForbiddenActions,
            Fault(B::ForbiddenActionsMissing, |f| {
                f.asked.contract.forbidden_actions = [Action::Push].into();
            }),
        ),
        (
            G::RiskClass,
            Fault(B::CriticalRepository, |f| {
                f.asked.contract.risk_class = RiskClass::Production;
            }),
        ),
        (
            G::RiskClass,
            Fault(B::UnownedRepository, |f| {
                f.asked.contract.risk_class = RiskClass::Unowned;
            }),
        ),
        (
            G::MutationMode,
            Fault(B::StageGateMissing, |f| {
                f.asked.contract.mutation_mode = None
            }),
        ),
        (
            G::MutationMode,
            FaultAt(B::StageNotProven, (1, 5), |f| {
                f.asked.contract.mutation_mode = Some(MutationMode::CandidateDefault);
            }),
        ),
        (
            G::Approval,
            Fault(B::ApprovalMissing, |f| {
                f.asked.contract.approval_required = true;
                f.asked.approval = ApprovalState::None;
            }),
        ),
        (
            G::Approval,
            Fault(B::ApprovalDenied, |f| {
                f.asked.contract.approval_required = true;
                f.asked.approval = ApprovalState::Refused(ApprovalRefusal::Denied {
                    by: "olga".parse().unwrap(),
                });
            }),
        ),
        (
            G::TargetAdmission,
            Fault(B::TargetAdmissionMissing, |f| {
                f.asked.records.targets.clear();
            }),
        ),
        (
            G::TargetAdmission,
            Fault(B::TargetAdmissionInvalid, |f| {
                settings(f).target = Some(NamedRecord::Invalid("line 3".to_owned()));
            }),
        ),
        (
            G::TargetAdmission,
            Fault(B::TargetNotAdmitted, |f| {
                f.asked
                    .records
                    .targets
                    .iter_mut()
                    .for_each(|t| t.record.admission_status = AdmissionStatus::NotAdmitted);
            }),
        ),
        (
            G::TargetAdmission,
            Fault(B::TargetNotAdmitted, |f| {
                f.asked
                    .records
                    .targets
                    .iter_mut()
                    .for_each(|t| t.seal = AdmissionSeal::Unsigned);
            }),
        ),
        (
            G::TargetAdmission,
            Fault(B::TargetNotAdmitted, |f| {
                f.asked
                    .records
                    .targets
                    .iter_mut()
                    .for_each(|t| t.record.review_trigger = OVERDUE.parse().unwrap());
            }),
        ),
        (
            G::TargetAdmission,
            Fault(B::TargetNotAdmitted, |f| {
                f.asked.contract.target_id = Some("t".to_owned());
                f.asked.target_path = Some("/srv/moved".to_owned());
            }),
        ),
        (
            G::TargetOwnership,
            Fault(B::UnownedRepository, |f| {
                f.asked
                    .records
                    .targets
                    .iter_mut()
                    .for_each(|t| t.record.ownership_evidence = "".parse().unwrap());
            }),
        ),
        (
            G::TargetRisk,
            Fault(B::CriticalRepository, |f| {
                f.asked
                    .records
                    .targets
                    .iter_mut()
                    .for_each(|t| t.record.risk_classification = "production".parse().unwrap());
            }),
        ),
        (
            G::TargetPaths,
            Fault(B::AllowedPathsMissing, |f| {
                f.asked
                    .records
                    .targets
                    .iter_mut()
                    .for_each(|t| t.record.allowed_paths.clear());
            }),
        ),
        (
            G::TargetActions,
            Fault(B::ForbiddenActionsMissing, |f| {
                f.asked.records.targets.iter_mut().for_each(|t| {
                    t.record.forbidden_actions.remove(&Action::Deploy);
                });
            }),
        ),
        (
            G::TargetApproval,
            Fault(B::ApprovalSourceMissing, |f| {
                f.asked
                    .records
                    .targets
                    .iter_mut()
                    .for_each(|t| t.record.approval_source = "".parse().unwrap());
            }),
        ),
        (
            G::TargetApproval,
            Fault(B::ApprovalSourceMissing, |f| {
                f.asked
                    .records
                    .targets
                    .iter_mut()
                    .for_each(|t| t.record.approval_timestamp = "".parse().unwrap());
            }),
        ),
        (
            G::TargetOutcome,
            Fault(B::OperatorOutcomeRequirementMissing, |f| {
                f.asked
                    .records
                    .targets
                    .iter_mut()
                    .for_each(|t| t.record.operator_outcome_required = false);
            }),
        ),
        (
            G::TargetScope,
            Fault(B::TargetScopeExceeded, |f| {
                for target in &mut f.asked.records.targets {
                    let paths = &mut target.record.allowed_paths;
                    paths
                        .iter_mut()
                        .for_each(|path| *path = "docs/".parse().unwrap());
                }
            }),
        ),
        (
            G::Repository,
            Fault(
                B::SourceNotOwned,
                found!(Answer::Repository(RepositoryState::NotOwned(
                    "not yours".into()
                ))),
            ),
        ),
        (
            G::Repository,
            Fault(
                B::RepositoryUnsupported,
                found!(Answer::Repository(RepositoryState::Unsupported(
                    "submodules".into()
                ))),
            ),
        ),
        (
            G::Repository,
            Unseen(Probe::Repository, |seen| seen.repository = None),
        ),
        (
            G::StartTreeClean,
            Fault(
                B::DirtyStartingTree,
                found!(Answer::StartTree(StartTree::new([&b"notes.txt"[..]], None))),
            ),
        ),
        (
            G::StartTreeClean,
            Unseen(Probe::StartTree, |seen| seen.start_tree = None),
        ),
        (
            G::EvidenceInterface,
            Fault(
                B::ArtifactWriteFailure,
                found!(Answer::EvidenceInterface(Err(NoEvidence::Unwritable(
                    "home is not writable".into()
                )))),
            ),
        ),
        (
            G::EvidenceInterface,
            Fault(
                B::ClockUndecidable,
                found!(Answer::EvidenceInterface(Err(NoEvidence::ClockBeforeKey {
                    now: now(),
                    counts_from: now().plus_seconds(1),
                }))),
            ),
        ),
        (
            G::EvidenceInterface,
            Unseen(Probe::EvidenceInterface, |seen| {
                seen.evidence_interface = None
            }),
        ),
        (
            G::Ledger,
            Fault(B::LedgerRolledBack, |f| {
                let mut ledger = sound_ledger();
                ledger.length -= 1;
                f.learn(Answer::Ledger(Ok(ledger)), now());
            }),
        ),
        (
            G::Ledger,
            Fault(B::LedgerRolledBack, |f| {
                let mut ledger = sound_ledger();
                ledger.witnesses.clear();
                f.learn(Answer::Ledger(Ok(ledger)), now());
            }),
        ),
        (
            G::Ledger,
            Fault(
                B::LedgerRolledBack,
                found!(Answer::Ledger(Err("entry 3 does not hold".to_owned()))),
            ),
        ),
        (G::Ledger, Unseen(Probe::Ledger, |seen| seen.ledger = None)),
        (
            G::Trust,
            Fault(
                B::TrustRolledBack,
                found!(Answer::Trust(Ok(vec![(
                    "operators.allowed_signers".to_owned(),
                    FileState::Other
                )]))),
            ),
        ),
        (
            G::Trust,
            Fault(
                B::TrustRolledBack,
                found!(Answer::Trust(Ok(vec![(
                    "operators.allowed_signers".to_owned(),
                    FileState::Extra
                )]))),
            ),
        ),
        (
            G::Trust,
            Fault(
                B::TrustRolledBack,
                found!(Answer::Trust(Err("entry 3 does not hold".to_owned()))),
            ),
        ),
        (G::Trust, Unseen(Probe::Trust, |seen| seen.trust = None)),
        (
            G::Confinement,
            Fault(
                B::SandboxUnavailable,
                found!(Answer::Confinement(Err("no namespaces".into()))),
            ),
        ),
        (
            G::Confinement,
            FaultAt(
                B::SandboxUnavailable,
                (3, 6),
                found!(Answer::Confinement(Ok(WEAK))),
            ),
        ),
        (
            G::Confinement,
            Unseen(Probe::Confinement, |seen| seen.confinement = None),
        ),
        (
            G::ModelEndpoint,
            Fault(
                B::LocalProviderConfigMissing,
                found!(Answer::ModelEndpoint(EndpointState::Absent)),
            ),
        ),
        (
            G::ModelEndpoint,
            Fault(
                B::LocalProviderConfigMissing,
                found!(Answer::ModelEndpoint(EndpointState::Invalid(
                    "no host".into()
                ))),
            ),
        ),
        (
            G::ModelEndpoint,
            Unseen(Probe::ModelEndpoint, |seen| seen.model_endpoint = None),
        ),
        (
            G::ModelAccess,
            Fault(
                B::ProviderAuthUnavailable,
                found!(Answer::ModelAccess(AccessState::KeyUnavailable(
                    "no key".into()
                ))),
            ),
        ),
        (
            G::ModelAccess,
            Fault(
                B::ProviderUnavailable,
                found!(Answer::ModelAccess(AccessState::Unusable(
                    "no address".into()
                ))),
            ),
        ),
        (
            G::ModelAccess,
            Unseen(Probe::ModelAccess, |seen| seen.model_access = None),
        ),
        (
            G::ModelAccess,
            Fault(
                B::LocalProviderConfigMissing,
                found!(Answer::ModelAccess(AccessState::NoEndpoint(
                    "nothing printed".into()
                ))),
            ),
        ),
        (
            G::ModelAccess,
            Fault(B::ProviderAuthUnavailable, |f| {
                f.asked.auth_bridge = Some(bridge(None, true));
            }),
        ),
        (
            G::ModelAccess,
            Fault(B::ProviderAuthUnavailable, |f| {
                f.asked.auth_bridge = Some(bridge(Some("true"), true));
            }),
        ),
        (
            G::ModelAccess,
            Fault(B::ProviderAuthUnavailable, |f| {
                f.asked.auth_bridge = Some(bridge(Some("1"), false));
            }),
        ),
        (
            G::ModelAnswer,
            Fault(
                B::ProviderReasoningOnly,
                found!(Answer::ModelAnswer(AnswerState::Fault(
                    ProviderFault::ReasoningOnly
                ))),
            ),
        ),
        (
            G::ModelAnswer,
            Fault(
                B::ProviderAuthUnavailable,
                found!(Answer::ModelAnswer(AnswerState::Fault(ProviderFault::Auth))),
            ),
        ),
        (
            G::ModelAnswer,
            Fault(
                B::ProviderUnavailable,
                found!(Answer::ModelAnswer(AnswerState::Fault(
                    ProviderFault::Silent
                ))),
            ),
        ),
        (
            G::ModelAnswer,
            Fault(
                B::ModelAdmissionMismatch,
                found!(Answer::ModelAnswer(AnswerState::Answered {
                    model: "m".into(),
                    by: Some("another".into()),
                })),
            ),
        ),
        (
            G::ModelAnswer,
            Unseen(Probe::ModelAnswer, |seen| seen.model_answer = None),
        ),
        (
            G::Budget,
            Fault(B::BudgetUnmeterable, |f| {
                f.asked.unmeterable = vec!["cost".to_owned()];
            }),
        ),
    ]
};

fn bridge(value: Option<&str>, has_command: bool) -> AuthBridge {
    AuthBridge {
        name: "BRIDGE".to_owned(),
        value: value.map(str::to_owned),
        has_command,
    }
}

pub(super) fn twists_of(gate: Gate) -> impl Iterator<Item = &'static Twist> {
    let of = TWISTS.iter().filter(move |(of, _)| *of == gate);
    of.map(|(_, twist)| twist)
}
