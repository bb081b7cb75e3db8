//! Tests that try everything where the ordinary ones draw a sample: minutes, not seconds.

use std::process::ExitCode;

use anyhow::bail;

use crate::process::{cargo, status_of};
use crate::workspace::Workspace;

/// Tells the tests that this is a campaign.
const CAMPAIGN: &str = "CTO_TEST_CAMPAIGN";
/// Each campaign, and the part of a test's name that chooses its tests in the command line's suite.
const CAMPAIGNS: [(&str, &str); 1] = [("kills", "kill")];

pub(crate) fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    let asked = args.first().map(String::as_str);
    let Some((name, filter)) = CAMPAIGNS.iter().find(|(name, _)| asked == Some(*name)) else {
        let names: Vec<&str> = CAMPAIGNS.iter().map(|(name, _)| *name).collect();
        bail!("name a campaign: {}", names.join(", "));
    };
    let workspace = Workspace::load()?;
    // The tests start `cto` and its helpers as processes.
    let mut build = cargo();
    build.current_dir(&workspace.root);
    if !status_of(build.args(["build", "--workspace", "--bins"]))?.success() {
        bail!("the binaries do not build");
    }
    let mut tests = cargo();
    tests.current_dir(&workspace.root).env(CAMPAIGN, name);
    tests.args(["test", "-p", "cto-cli", "--test", "it", filter]);
    let status = status_of(tests.args(["--", "--nocapture"]))?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
