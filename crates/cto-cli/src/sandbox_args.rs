//! The flags that say who confines a run.

use cto_contract::words::SandboxChoice;
use cto_rules::sandbox_choice::Chosen;
use cto_runner::{Harness, RunError, SandboxAsk};

use crate::failure::{Exit, Failure};
use crate::session::Session;
use crate::suggest;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SandboxArgs {
    /// Confine by this provider: native, bwrap, podman, docker or none
    ///
    /// Without it DEFAULT_SANDCASTLE_PROVIDER decides, then `sandbox` of harness.yaml, then it is native. `none` confines
    /// nothing, must be typed each time, shows in every pack, and reaches no further than stage 2.
    #[arg(long, value_name = "PROVIDER")]
    sandbox: Option<String>,
    /// Do without namespaces: Landlock and a system call filter alone
    ///
    /// For kernels that refuse namespaces. The backend sees this machine's processes and file names, shows in every pack
    /// as class `weak`, and reaches no further than stage 2.
    #[arg(long)]
    weak: bool,
}

impl SandboxArgs {
    /// What was typed.
    pub(crate) fn ask(&self) -> Result<SandboxAsk, Failure> {
        let provider = self.sandbox.as_deref().map(parse).transpose()?;
        Ok(SandboxAsk {
            provider,
            weak: self.weak,
        })
    }
}

fn parse(name: &str) -> Result<SandboxChoice, Failure> {
    name.parse::<SandboxChoice>().map_err(|e| {
        let shown = cto_contract::text::shorten(name, 60);
        let mut failure = Failure::new(
            Exit::USAGE,
            "sandbox_unknown",
            format!("there is no sandbox provider `{shown}`"),
        );
        failure.causes.push(e.to_string());
        match suggest::nearest(name, SandboxChoice::ALL.iter().map(|c| c.as_str())) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("`cto doctor` says which are to be had here"),
        }
    })
}

/// Finds the choice for many runs at once, and tells what must not be overlooked.
pub(crate) fn choose(
    harness: &Harness,
    ask: SandboxAsk,
    session: &Session,
) -> Result<Chosen, Failure> {
    let chosen = harness.sandbox(ask).map_err(RunError::Sandbox)?;
    let printer = &session.printer;
    match (chosen.provider, chosen.weak) {
        (SandboxChoice::None, _) => {
            printer.talk("warning: no sandbox: every run can read and write whatever you can")
        }
        (_, true) => printer.talk("warning: the sandbox is weak: every run sees this machine"),
        (
            SandboxChoice::Native
            | SandboxChoice::Bwrap
            | SandboxChoice::Podman
            | SandboxChoice::Docker,
            false,
        ) => {}
    }
    Ok(chosen)
}
