//! Who forges an approval or replays one.

use cto_contract::blocker::BlockerCode;
use cto_contract::words::RunStatus;

use super::super::forged::SPEAKS;
use super::super::scene::{Claim, Meddling, Program, Scene};
use super::{PASS, PLAIN};

const FORGED: Scene = Scene {
    program: Program::File(SPEAKS),
    meddling: Meddling::ForgeApproval,
    ..PLAIN
};

pub(super) const SCENES: &[Scene] = &[
    Scene {
        name: "approval-forged",
        tries: &[(
            58,
            &[
                Claim::Status(RunStatus::Blocked),
                Claim::OnlyBlocker(BlockerCode::ApprovalMissing),
                Claim::NotStarted,
                Claim::NoApproval,
            ],
        )],
        terms: &[("approval_required", "true")],
        ..FORGED
    },
    // The mode alone asks for one, whatever the contract says.
    Scene {
        name: "approval-waived",
        tries: &[(
            58,
            &[
                Claim::Status(RunStatus::Blocked),
                Claim::Blocker(&[BlockerCode::ApprovalMissing]),
                Claim::NotStarted,
                Claim::NoApproval,
            ],
        )],
        terms: &[
            ("approval_required", "false"),
            ("mutation_mode", "sandbox-repo"),
        ],
        ..FORGED
    },
    // The control: the same where none is needed.
    Scene {
        name: "approval-not-needed",
        tries: &[(
            58,
            &[
                PASS,
                Claim::HonestPart,
                Claim::Shows("backend/stdout.log", "approval.consumed"),
                Claim::NoApproval,
            ],
        )],
        ..FORGED
    },
];
