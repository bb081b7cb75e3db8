//! What is refused because nobody can say who decides.

use cto_contract::blocker::BlockerCode;

use super::super::fixture::Fixture;
use super::PLAIN_CASE;
use super::gates::{NO_PATCH, NOTHING_RAN};

pub(super) const FIXTURES: &[Fixture] = &[
    Fixture {
        blocker: BlockerCode::LedgerRolledBack,
        trigger: "a checkpoint lies in the config directory that does not hold",
        planted: &[(
            "checkpoints/000000000000-000000000009-000000000000.dsse.json",
            "{}\n",
        )],
        shows: &[NO_PATCH, NOTHING_RAN, ("report.json", "does not hold")],
        ..PLAIN_CASE
    },
    Fixture {
        blocker: BlockerCode::TrustRolledBack,
        trigger: "a file of operators lies in the config directory, and the ledger knows of none",
        planted: &[(
            "operators.allowed_signers",
            "eve namespaces=\"cto-approval\" ssh-ed25519 AAAA\n",
        )],
        shows: &[NO_PATCH, NOTHING_RAN, ("report.json", "cto trust repair")],
        ..PLAIN_CASE
    },
];
