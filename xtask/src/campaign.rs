//! Tests that try everything where the ordinary ones draw a sample: minutes, not seconds.

use std::os::unix::fs::MetadataExt as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::process::{cargo, status_of};
use crate::workspace::Workspace;

/// Tells the tests that this is a campaign.
const CAMPAIGN: &str = "CTO_TEST_CAMPAIGN";
/// Each campaign, and the part of a test's name that chooses its tests in the command line's suite.
const CAMPAIGNS: [(&str, &str); 1] = [("kills", "kill")];

/// Makes an ordinary user of root, with programs that everybody can reach.
const AS_ORDINARY_USER: &str = "target.'cfg(unix)'.runner = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--', \
     'env', 'PATH=/usr/local/bin:/usr/bin:/bin']";

/// How the tests are started, once for each user: root is another one as well.
fn runners(is_root: bool) -> Vec<Option<&'static str>> {
    match is_root {
        true => vec![None, Some(AS_ORDINARY_USER)],
        false => vec![None],
    }
}

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
    let own = std::fs::metadata("/proc/self").context("could not ask who this is")?;
    for runner in runners(own.uid() == 0) {
        println!(
            "campaign {name}, as {}",
            if runner.is_some() {
                "an ordinary user"
            } else {
                "this user"
            }
        );
        let mut tests = cargo();
        tests.current_dir(&workspace.root).env(CAMPAIGN, name);
        tests.args(["test", "-p", "cto-cli", "--test", "it", filter]);
        if let Some(runner) = runner {
            tests.args(["--config", runner]);
        }
        if !status_of(tests.args(["--", "--nocapture"]))?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
