//! `cto why`.

use crate::ids::CaseId;

outputs! {
    /// `cto why`.
    WhyOutput, WhyTag = "cto.why/v1" {
        pub subject: String,
        pub kind: SubjectKind,
        pub task_id: CaseId,
        /// What the policy says: `allowed`, `forbidden`, `frozen`, … for a path, `forbidden`, `permitted` or `unlisted` for an action.
        pub verdict: String,
        pub allowed: bool,
        /// The pattern, field or rule that decided.
        pub decided_by: String,
        pub sentence: String,
        pub hint: Option<String>,
    }
}

wire_enum! {
    /// What `cto why` was asked about.
    pub enum SubjectKind { Path = "path", Action = "action" }
}
