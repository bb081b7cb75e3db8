//! Questions to the index and the shape of their answers.

use cto_contract::ids::{CaseId, Digest};
use cto_contract::wire_enum;
use cto_contract::words::Lane;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::run::RunRow;

/// Most rows of one page.
pub const PAGE_ROWS_MAX: u32 = 1000;

wire_enum! {
    /// A status, or that there is none yet.
    pub enum State { Running = "running", Pass = "pass", Fail = "fail", Blocked = "blocked" }
}

/// Which runs to list. Absent means any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub state: Option<State>,
    pub case_id: Option<CaseId>,
    pub backend: Option<Lane>,
    /// How the run id begins.
    pub prefix: Option<String>,
}

/// Which runs of this home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnRuns {
    All,
    /// Started on the repository with this digest.
    OfRepository(Digest),
    /// Started on none: cases.
    OfNoRepository,
}

/// Which part of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Rows wanted; at least 1 and at most [`PAGE_ROWS_MAX`] are given.
    pub limit: u32,
    /// The `next` of the page before.
    pub after: Option<Cursor>,
}

impl Page {
    /// The first page.
    pub const fn first(limit: u32) -> Self {
        Self { limit, after: None }
    }

    pub(crate) fn rows(limit: u32) -> usize {
        limit.clamp(1, PAGE_ROWS_MAX) as usize
    }
}

/// One page, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Listing {
    pub rows: Vec<RunRow>,
    /// Null at the end.
    pub next: Option<Cursor>,
}

/// How many runs of each state the index holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    pub running: u64,
    pub pass: u64,
    pub fail: u64,
    pub blocked: u64,
}

impl Counts {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.running + self.pass + self.fail + self.blocked
    }
}

/// What a rebuild of the index found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rebuilt {
    /// Rows of the new index.
    pub runs: u64,
    /// Of these, runs that the ledger knows as created and that have no pack.
    pub running: u64,
    /// Runs that the ledger knows as sealed and that have no pack: lost evidence.
    pub missing: u64,
    /// Packs of runs that this ledger never created: imported ones.
    pub unknown: u64,
}
