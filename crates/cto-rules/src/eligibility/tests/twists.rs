//! Everything that can be wrong with a fact, one gate each.

use cto_contract::blocker::BlockerCode;
use cto_contract::words::{RiskClass, SandboxClass, SourceAdmissionStatus};

use super::*;

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
            Fault(B::SourceNotAdmitted, |f| {
                settings(f).source_admission = SourceAdmissionStatus::NotAdmitted;
            }),
        ),
        (
            G::SourceAdmission,
            Fault(B::SourceNotAdmitted, |f| {
                settings(f).source_admission = SourceAdmissionStatus::Stale;
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
                f.asked.approval = ApprovalState::Denied;
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
                found!(Answer::EvidenceInterface(
                    Err("home is not writable".into())
                )),
            ),
        ),
        (
            G::EvidenceInterface,
            Unseen(Probe::EvidenceInterface, |seen| {
                seen.evidence_interface = None
            }),
        ),
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
            G::Budget,
            Fault(B::BudgetUnmeterable, |f| {
                f.asked.unmeterable = vec!["cost".to_owned()];
            }),
        ),
    ]
};

pub(super) fn twists_of(gate: Gate) -> impl Iterator<Item = &'static Twist> {
    let of = TWISTS.iter().filter(move |(of, _)| *of == gate);
    of.map(|(_, twist)| twist)
}
