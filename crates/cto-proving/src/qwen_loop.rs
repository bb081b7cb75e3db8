//! The loop of Qwen: one shipped case by Case at stage 2, with a fixed pair of provider and model.

use cto_contract::words::{Lane, Stage};
use cto_runner::{CaseError, Catalog, Environment, RunRequest, SandboxAsk, Task};

/// The case that is run.
pub const CASE: &str = "r1-string-slugify";
pub const PROVIDER: &str = "qwen-local";
pub const MODEL: &str = "qwen3.6-35b-a3b";
/// What the caller must name himself: without it nothing is looked for elsewhere.
const NAMED_BY_CALLER: [&str; 2] = [
    "CTO_HARNESS_CASE_BIN",
    "CTO_HARNESS_CASE_MODEL_ADMISSION_FILE",
];

/// What is run.
pub fn request() -> Result<RunRequest, CaseError> {
    Ok(RunRequest {
        task: Task::Case(Catalog { extra: None }.find(CASE)?),
        lane: Lane::Case,
        argv: Vec::new(),
        stage: Some(Stage::FIXTURE),
        timeout_seconds: None,
        cheat: None,
        parent: None,
        conformance: false,
        sandbox: SandboxAsk::default(),
        approval: Default::default(),
    })
}

/// The caller's environment with the pair of the loop. What he did not name is named as not set, so that a program on the
/// search path or a record in the config does not stand in for it.
pub fn environment(env: &Environment) -> Environment {
    let lane = Lane::Case;
    let pair = [
        (lane.model_provider(), PROVIDER.to_owned()),
        (lane.model(), MODEL.to_owned()),
    ];
    let pair = pair
        .into_iter()
        .filter_map(|(name, value)| Some((name?, value)));
    let absent = NAMED_BY_CALLER
        .iter()
        .filter(|name| env.get(name).is_none());
    let absent = absent.map(|name| ((*name).to_owned(), format!("/{name} is not set")));
    env.clone().with(pair.chain(absent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pair_is_fixed_and_nothing_stands_in_for_what_the_caller_did_not_name() {
        let asked = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let env = environment(&Environment::new([
            asked("CTO_HARNESS_CASE_MODEL", "gpt-5.5"),
            asked("CTO_HARNESS_CASE_BIN", "/opt/ca"),
        ]));
        assert_eq!(env.get("CTO_HARNESS_CASE_MODEL"), Some(MODEL));
        assert_eq!(env.get("CTO_HARNESS_CASE_MODEL_PROVIDER"), Some(PROVIDER));
        assert_eq!(env.get("CTO_HARNESS_CASE_BIN"), Some("/opt/ca"));
        assert_eq!(
            env.get("CTO_HARNESS_CASE_MODEL_ADMISSION_FILE"),
            Some("/CTO_HARNESS_CASE_MODEL_ADMISSION_FILE is not set")
        );
        // Gates are the caller's alone.
        assert_eq!(env.get("CTO_HARNESS_ALLOW_CASE"), None);
        assert_eq!(env.get("CTO_HARNESS_CASE_STAGE"), None);
    }
}
