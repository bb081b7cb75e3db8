//! Whether a commit rests on evidence: what it says of itself, and what the pack that it names says of it.

use cto_contract::addendum::Outcome;
use cto_contract::ids::{CommitId, Digest, RunId, TreeId};
use cto_contract::outputs::{CommitAnswer, CommitEvidence, GateError};
use cto_contract::trust::Origin;
use cto_contract::words::{Lane, RunStatus};

/// Ends the address of an author that is a lane.
const LANE_DOMAIN: &str = "@lane.invalid";

/// What the last lines of a commit's message name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trailers {
    pub run: Option<String>,
    pub evidence: Option<String>,
    pub assisted_by: Option<String>,
}

/// Reads the trailers: lines `Name: value` of the last paragraph. The last one of a name counts.
pub fn trailers(message: &str) -> Trailers {
    let mut found = Trailers::default();
    let last = message.trim_end().rsplit("\n\n").next().unwrap_or_default();
    for line in last.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = Some(value.trim().to_owned());
        match name.trim().to_ascii_lowercase().as_str() {
            "cto-run" => found.run = value,
            "cto-evidence" => found.evidence = value,
            "assisted-by" => found.assisted_by = value,
            _ => {}
        }
    }
    found
}

/// Whether a lane made the commit: it says so, or its author does.
pub fn is_by_lane(trailers: &Trailers, author_email: &str) -> bool {
    let names_lane = trailers.assisted_by.as_deref().is_some_and(|by| {
        let lane = by.split(':').next().unwrap_or_default();
        lane.parse::<Lane>().is_ok()
    });
    let is_lanes = author_email.to_ascii_lowercase().ends_with(LANE_DOMAIN);
    trailers.run.is_some() || trailers.evidence.is_some() || names_lane || is_lanes
}

/// The pack that a commit names, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPack {
    pub verifies: bool,
    pub origin: Origin,
    pub pack_digest: Option<Digest>,
    pub status: Option<RunStatus>,
    pub tree_id: Option<TreeId>,
    /// By the record of the landing, unless it was taken back.
    pub landed_commit: Option<CommitId>,
    pub outcome: Option<Outcome>,
}

/// Everything that the answer rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitFacts {
    pub commit: CommitId,
    pub tree_id: TreeId,
    pub author_email: String,
    pub message: String,
    /// None where there is no such pack.
    pub pack: Option<NamedPack>,
}

/// The run that a commit names, if what it names can be one.
pub fn named_run(message: &str) -> Option<RunId> {
    trailers(message).run?.parse().ok()
}

fn named_digest(trailers: &Trailers) -> Option<Digest> {
    let named = trailers.evidence.as_deref()?.strip_prefix("sha256:")?;
    named.parse().ok()
}

/// Says what the evidence is worth for this very commit.
pub fn judge_commit(facts: &CommitFacts) -> CommitEvidence {
    let trailers = trailers(&facts.message);
    let (run_id, digest) = (named_run(&facts.message), named_digest(&trailers));
    let (answer, reason) = answer(facts, &trailers, digest.as_ref());
    CommitEvidence {
        commit: facts.commit.clone(),
        tree_id: facts.tree_id.clone(),
        answer,
        by_lane: is_by_lane(&trailers, &facts.author_email),
        run_id,
        pack_digest: digest,
        origin: facts.pack.as_ref().map(|pack| pack.origin),
        outcome: facts.pack.as_ref().and_then(|pack| pack.outcome),
        reason: reason.map(str::to_owned),
    }
}

fn answer(
    facts: &CommitFacts,
    trailers: &Trailers,
    digest: Option<&Digest>,
) -> (CommitAnswer, Option<&'static str>) {
    let not = |why| (CommitAnswer::Unverifiable, Some(why));
    if trailers.run.is_none() && trailers.evidence.is_none() {
        return (CommitAnswer::None, Some("it names no run and no evidence"));
    }
    let Some(digest) = digest else {
        return not("it names no pack by its digest");
    };
    let Some(pack) = &facts.pack else {
        return not("the pack that it names is not here");
    };
    if pack.pack_digest.as_ref() != Some(digest) {
        return not("the pack of the run that it names is another one");
    }
    if !pack.verifies {
        return not("the pack that it names does not verify");
    }
    if pack.origin != Origin::Known {
        return not("nobody knows who sealed the pack that it names");
    }
    if pack.status != Some(RunStatus::Pass) {
        return not("the run that it names did not pass");
    }
    if pack.tree_id.as_ref() != Some(&facts.tree_id) {
        return not("the pack that it names checked another tree");
    }
    if pack.landed_commit.as_ref() == Some(&facts.commit) {
        return (CommitAnswer::Exact, None);
    }
    let why = "the same tree, but not the commit that the run landed";
    (CommitAnswer::Equivalent, Some(why))
}

/// Why a commit by a lane does not pass the gate; none where it does, or where no lane made it.
pub fn gate_error(evidence: &CommitEvidence) -> Option<GateError> {
    if !evidence.by_lane {
        return None;
    }
    let message = match (evidence.answer, evidence.outcome) {
        (CommitAnswer::Exact | CommitAnswer::Equivalent, Some(Outcome::Accepted)) => return None,
        (CommitAnswer::Exact | CommitAnswer::Equivalent, Some(Outcome::Rejected)) => {
            "an operator rejected the run that made it".to_owned()
        }
        (CommitAnswer::Exact | CommitAnswer::Equivalent, None) => {
            "no operator has accepted the run that made it".to_owned()
        }
        (CommitAnswer::None | CommitAnswer::Unverifiable, _) => {
            let why = evidence.reason.as_deref().unwrap_or("it has no evidence");
            format!("a lane made it, and {why}")
        }
    };
    let commit = evidence.commit.clone();
    Some(GateError { commit, message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
    const RUN: &str = "20260601T105222Z-task-k3v9qd";

    fn good() -> CommitFacts {
        let digest = "ab".repeat(32);
        CommitFacts {
            commit: COMMIT.parse().unwrap(),
            tree_id: TREE.parse().unwrap(),
            author_email: "command@lane.invalid".to_owned(),
            message: format!(
                "Title\n\nCTO-Run: {RUN}\nCTO-Evidence: sha256:{digest}\nAssisted-by: command:none\n"
            ),
            pack: Some(NamedPack {
                verifies: true,
                origin: Origin::Known,
                pack_digest: Some(digest.parse().unwrap()),
                status: Some(RunStatus::Pass),
                tree_id: Some(TREE.parse().unwrap()),
                landed_commit: Some(COMMIT.parse().unwrap()),
                outcome: Some(Outcome::Accepted),
            }),
        }
    }

    #[test]
    fn every_spoiled_fact_takes_the_answer_away() {
        assert_eq!(judge_commit(&good()).answer, CommitAnswer::Exact);
        assert_eq!(gate_error(&judge_commit(&good())), None);
        let spoil: [fn(&mut NamedPack); 5] = [
            |pack| pack.verifies = false,
            |pack| pack.origin = Origin::Unknown,
            |pack| pack.pack_digest = None,
            |pack| pack.status = Some(RunStatus::Fail),
            |pack| pack.tree_id = None,
        ];
        for set in 1..1_u32 << spoil.len() {
            let mut facts = good();
            let pack = facts.pack.as_mut().unwrap();
            for (bit, spoil) in spoil.iter().enumerate() {
                if set & (1 << bit) != 0 {
                    spoil(pack);
                }
            }
            let judged = judge_commit(&facts);
            assert_eq!(judged.answer, CommitAnswer::Unverifiable, "{set}");
            assert!(gate_error(&judged).is_some());
        }
        let facts = CommitFacts {
            pack: None,
            ..good()
        };
        assert_eq!(judge_commit(&facts).answer, CommitAnswer::Unverifiable);
    }

    #[test]
    fn another_commit_with_the_same_tree_is_equivalent_and_needs_the_acceptance_too() {
        let mut facts = good();
        facts.commit = "f".repeat(40).parse().unwrap();
        let judged = judge_commit(&facts);
        assert_eq!(judged.answer, CommitAnswer::Equivalent);
        assert_eq!(gate_error(&judged), None);
        for outcome in [None, Some(Outcome::Rejected)] {
            facts.pack.as_mut().unwrap().outcome = outcome;
            assert!(gate_error(&judge_commit(&facts)).is_some());
        }
    }

    #[test]
    fn a_commit_of_a_person_needs_nothing_and_one_of_a_lane_does_however_it_shows() {
        let mut facts = good();
        facts.pack = None;
        facts.message = "Mend it\n".to_owned();
        facts.author_email = "olga@example.org".to_owned();
        let judged = judge_commit(&facts);
        assert_eq!((judged.answer, judged.by_lane), (CommitAnswer::None, false));
        assert_eq!(gate_error(&judged), None);
        for (message, email) in [
            ("Mend it\n", "codex@LANE.invalid"),
            ("Mend it\n\nAssisted-by: codex:gpt\n", "olga@example.org"),
            ("Mend it\n\nCTO-Run: x\n", "olga@example.org"),
            ("Mend it\n\ncto-evidence: x\n", "olga@example.org"),
        ] {
            facts.message = message.to_owned();
            facts.author_email = email.to_owned();
            let judged = judge_commit(&facts);
            assert!(judged.by_lane && gate_error(&judged).is_some(), "{message}");
        }
    }

    #[test]
    fn trailers_stand_in_the_last_paragraph_alone() {
        let found = trailers("T\n\nCTO-Run: a\n\nCTO-Evidence: b\nCTO-Evidence: c\n");
        assert_eq!(found.run, None);
        assert_eq!(found.evidence.as_deref(), Some("c"));
    }

    proptest! {
        #[test]
        fn any_message_can_be_read(message in "\\PC{0,200}", email in "\\PC{0,40}") {
            let mut facts = good();
            facts.message = message;
            facts.author_email = email;
            let judged = judge_commit(&facts);
            prop_assert!(judged.answer != CommitAnswer::Exact || judged.pack_digest.is_some());
        }
    }
}
