//! One landing as a process, so that `cargo xtask bench landing` can hold it against `git commit`.
//!
//! `REPO PATCH TREE BRANCH ref-only|checked-out PLACE` puts the patch on the branch, from the repository's HEAD. The last line
//! is the time of it, in nanoseconds.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for benchmarks talks to the one that starts it"
)]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use cto_checkout::{BranchName, CommitText, LandingRequest, Person, Repository, foresee, prepare};
use cto_contract::approval::GrantConsumed;
use cto_contract::words::{MutationMode, RunStatus, SandboxClass};
use cto_rules::landing::{LandingFacts, decide};

const RUN: &str = "20260601T105222Z-bench-k3v9qd";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match land(&args) {
        Ok(nanos) => {
            println!("{nanos}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn land(args: &[String]) -> Result<u128, Box<dyn Error>> {
    let [repo, patch, tree, branch, update, place] = args else {
        return Err("six words are needed".into());
    };
    let begun = Instant::now();
    let place = Path::new(place);
    let target = Repository::open(Path::new(repo), &place.join("target"))?;
    let base = target.resolve(None)?.id;
    let branch = BranchName::parse(branch)?;
    let update = update.parse()?;
    let text = CommitText {
        author: Person::new("bench", "bench@lane.invalid")?,
        committer: Person::new("bench", "bench@operator.invalid")?,
        at: 1_780_000_000,
        message: format!("Change\n\nCTO-Run: {RUN}\n"),
    };
    let request = LandingRequest {
        patch: Path::new(patch),
        tree: tree.parse()?,
        base,
        branch: &branch,
        expected: foresee(&target, &branch, base, update)?,
        update,
        left_alone: None,
        text: &text,
    };
    let prepared = prepare(&target, &request, &place.join("landing.git"))?;
    let landing_tree: cto_contract::ids::TreeId = prepared.tree().to_string().parse()?;
    let digest = "0".repeat(64).parse()?;
    let grant = decide(&LandingFacts {
        run_id: RUN.parse()?,
        pack_digest: Some("0".repeat(64).parse()?),
        pack_verifies: true,
        ledger_agrees: true,
        status: RunStatus::Pass,
        mode: MutationMode::OwnedNoncriticalRepo,
        sandbox: SandboxClass::Full,
        consumed_approval: Some(GrantConsumed {
            request_id: "rq-aaaaaaaaaaaaaaaa".parse()?,
            grant_seq: 3,
            grant_digest: digest,
            run_id: RUN.parse()?,
            epoch: 4,
            at: "2026-06-01T10:52:22Z".parse()?,
        }),
        checked_tree: Some(landing_tree.clone()),
        landing_tree,
    });
    let grant = grant.map_err(|against| format!("{against:?}"))?;
    prepared.land(&target, grant)?;
    Ok(begun.elapsed().as_nanos())
}
