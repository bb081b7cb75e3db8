//! Verification as rules: which runner a command starts, what its output counts, and whether the checks hold.

mod alias;
mod baseline;
mod by_name;
mod call;
mod canary;
mod cargo;
mod chain;
mod go;
mod judge;
mod junit;
mod names;
mod node;
mod oracle;
mod pytest;
mod section;
mod settings;
mod unittest;

pub use baseline::{first_error, is_tool_missing, judge_baseline};
pub use canary::{CanaryPlan, Entry, EntryKind, NoPlan, Planted, TreeFacts, Wanted};
pub use cargo::{CargoTest, count_cargo};
pub use chain::Check;
pub use go::{GoTest, count_go};
pub use judge::{Judgement, Observed, all_checks, judge, judge_again, judge_command, judged};
pub use junit::read_junit;
pub use node::{NodeTest, count_node};
pub use oracle::OracleUse;
pub use pytest::{Pytest, count_pytest};
pub use section::{end_line, is_end_line, shows_ends};
pub use unittest::{Unittest, count_unittest};

use call::Call;
use cto_contract::verification::TestCounts;

/// A test runner that the harness knows how to count and to plant a canary in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runner {
    Unittest(Unittest),
    Pytest(Pytest),
    Cargo(CargoTest),
    Node(NodeTest),
    Go(GoTest),
}

impl Runner {
    /// Recognises the runner that a command line starts; none for anything that is not a plain call of one.
    pub fn recognise(command: &str) -> Option<Self> {
        let call = Call::read(command)?;
        unittest::recognise(&call)
            .map(Self::Unittest)
            .or_else(|| pytest::recognise(&call).map(Self::Pytest))
            .or_else(|| cargo::recognise(&call).map(Self::Cargo))
            .or_else(|| node::recognise(&call).map(Self::Node))
            .or_else(|| go::recognise(&call).map(Self::Go))
    }

    pub const fn name(&self) -> &'static str {
        match self {
            Self::Unittest(_) => "unittest",
            Self::Pytest(_) => "pytest",
            Self::Cargo(_) => "cargo test",
            Self::Node(_) => "node --test",
            Self::Go(_) => "go test",
        }
    }

    /// The same tests, but all of them and each told by name.
    pub fn verbose(&self) -> String {
        match self {
            Self::Unittest(call) => call.verbose(),
            Self::Pytest(call) => call.verbose(),
            Self::Cargo(call) => call.verbose(),
            Self::Node(call) => call.verbose(),
            Self::Go(call) => call.verbose(),
        }
    }

    /// What to plant, and how to call the runner so that it must find it. `token` is random lower-case text. Asked
    /// again with one more fact for as long as the answer is that one is needed.
    pub fn canary(&self, token: &str, facts: &TreeFacts) -> Result<CanaryPlan, NoPlan> {
        match self {
            Self::Unittest(call) => call.canary(token, facts),
            Self::Pytest(call) => call.canary(token, facts),
            Self::Cargo(call) => call.canary(token, facts),
            Self::Node(call) => call.canary(token, facts),
            Self::Go(call) => call.canary(token, facts),
        }
    }

    /// Counts the tests that the output tells of; none when it tells of none.
    pub fn count(&self, output: &str) -> Option<TestCounts> {
        match self {
            Self::Unittest(_) => count_unittest(output),
            Self::Pytest(_) => count_pytest(output),
            Self::Cargo(_) => count_cargo(output),
            Self::Node(_) => count_node(output),
            Self::Go(_) => count_go(output),
        }
    }
}
