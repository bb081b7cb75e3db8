//! What a pack claims about its run: a kind, how well it is supported, and what it rests on. The sentence is derived.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::EventType;
use crate::words::ClaimLevel;

wire_enum! {
    /// What is claimed. Closed: each kind has its rule, its sentence and its place in the format page.
    pub enum ClaimKind {
        PathsWithinContract = "paths_within_contract",
        PatchGivesCheckedTree = "patch_gives_checked_tree",
        ChecksPass = "checks_pass",
        ChecksFailBefore = "checks_fail_before",
        /// Only where the work was copied from a repository.
        SourceUnchanged = "source_unchanged",
        NothingSurvived = "nothing_survived",
        WritesConfined = "writes_confined",
        BackendAccount = "backend_account",
        /// Only for a pass, and always absent: a person's outcome is an addendum.
        OperatorAccepted = "operator_accepted",
    }
}

impl ClaimKind {
    /// What is claimed, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::PathsWithinContract => "Every changed path is within the contract",
            Self::PatchGivesCheckedTree => "The patch alone gives the tree that was checked",
            Self::ChecksPass => "The checks pass on the changed tree",
            Self::ChecksFailBefore => "The checks fail without the change",
            Self::SourceUnchanged => "The source repository is as it was",
            Self::NothingSurvived => "Nothing of the backend outlived the run",
            Self::WritesConfined => "Writes outside the workspace were impossible",
            Self::BackendAccount => "The backend says what it did",
            Self::OperatorAccepted => "An operator accepted the change",
        }
    }
}

/// One thing that a claim rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// A file of the pack.
    File(String),
    /// An event of the log.
    Event(EventType),
}

impl Basis {
    /// A file of the pack.
    pub fn file(path: &str) -> Self {
        Self::File(path.to_owned())
    }

    /// The name of the file or event.
    pub fn name(&self) -> &str {
        match self {
            Self::File(path) => path,
            Self::Event(event) => event.as_str(),
        }
    }
}

/// A claim and how well it is supported. One that nothing supports is `absent` and rests on nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    pub kind: ClaimKind,
    pub level: ClaimLevel,
    pub rests_on: Vec<Basis>,
    /// For people, derived from kind and level: nothing reads it.
    pub sentence: String,
}

impl Claim {
    /// Makes a claim with its sentence.
    pub fn new(kind: ClaimKind, level: ClaimLevel, rests_on: Vec<Basis>) -> Self {
        Self {
            kind,
            level,
            rests_on,
            sentence: match level {
                ClaimLevel::Absent => format!("Not shown: {}", kind.text()),
                ClaimLevel::SelfReported | ClaimLevel::Inferred | ClaimLevel::Verified => {
                    kind.text().to_owned()
                }
            },
        }
    }

    /// Names what it rests on, for people.
    pub fn basis_text(&self) -> String {
        let names: Vec<&str> = self.rests_on.iter().map(Basis::name).collect();
        match names.is_empty() {
            true => "nothing".to_owned(),
            false => names.join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_names_files_and_events_as_data_and_says_when_nothing_shows_it() {
        let json = |claim: &Claim| serde_json::to_string(claim).unwrap();
        let rests_on = vec![
            Basis::file("test.log"),
            Basis::Event(EventType::VerificationCompleted),
        ];
        let shown = Claim::new(ClaimKind::ChecksPass, ClaimLevel::Inferred, rests_on);
        insta::assert_snapshot!(json(&shown), @r#"{"kind":"checks_pass","level":"inferred","rests_on":[{"file":"test.log"},{"event":"verification.completed"}],"sentence":"The checks pass on the changed tree"}"#);
        let absent = Claim::new(ClaimKind::ChecksPass, ClaimLevel::Absent, Vec::new());
        insta::assert_snapshot!(json(&absent), @r#"{"kind":"checks_pass","level":"absent","rests_on":[],"sentence":"Not shown: The checks pass on the changed tree"}"#);
        assert_eq!(serde_json::from_str::<Claim>(&json(&shown)).unwrap(), shown);
    }
}
