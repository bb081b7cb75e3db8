//! The `command` lane: any program that edits files in its working directory.

use crate::brief::Brief;
use crate::{LaunchSpec, ModelAddress, PLACEHOLDER_KEY, Places, base_environment};

/// The program and its arguments, as they were typed. The runner resolves the first word and refuses an empty list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandCall {
    pub argv: Vec<String>,
}

/// Environment name that holds the path of the brief.
pub const TASK_VARIABLE: &str = "CTO_TASK";
/// Environment name that holds the path of the contract.
pub const CONTRACT_VARIABLE: &str = "CTO_CONTRACT";

const BRIEF_NAME: &str = "brief.md";
const CONTRACT_NAME: &str = "task-contract.json";

pub(crate) fn launch_spec(
    call: &CommandCall,
    places: &Places,
    path: &str,
    brief: &Brief,
    model: Option<&ModelAddress>,
) -> LaunchSpec {
    let mut env = base_environment(places, path);
    if let Some(model) = model {
        // The names that clients of these calls read by themselves.
        for (variable, value) in [
            ("OPENAI_BASE_URL", model.base_url.as_str()),
            ("OPENAI_API_KEY", PLACEHOLDER_KEY),
        ] {
            env.insert(variable.to_owned(), value.to_owned());
        }
    }
    for (variable, name) in [
        (TASK_VARIABLE, BRIEF_NAME),
        (CONTRACT_VARIABLE, CONTRACT_NAME),
    ] {
        env.insert(variable.to_owned(), format!("{}/{name}", places.scratch));
    }
    LaunchSpec {
        argv: call.argv.clone(),
        env,
        scratch_files: vec![
            (BRIEF_NAME.to_owned(), brief.markdown.clone().into_bytes()),
            (CONTRACT_NAME.to_owned(), brief.contract_json.clone()),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;
    use cto_contract::words::Lane;

    #[test]
    fn the_program_gets_its_words_unchanged_and_finds_its_task_by_two_names() {
        let places = Places {
            workspace: "/run/w".into(),
            scratch: "/s".into(),
            home: "/s/home".into(),
        };
        let argv = ["my-agent", "--do", "$(touch x)", "", "a b"].map(str::to_owned);
        let engine = Engine::Command(CommandCall {
            argv: argv.to_vec(),
        });
        let brief = Brief {
            markdown: "# Task\n".to_owned(),
            contract_json: b"{}".to_vec(),
        };
        let spec = engine.launch_spec(&places, "/usr/bin", &brief, None);
        assert!(!spec.env.keys().any(|name| name.starts_with("OPENAI")));
        let model = crate::ModelAddress {
            base_url: "http://127.0.0.1:8471/v1".to_owned(),
        };
        let with_model = engine.launch_spec(&places, "/usr/bin", &brief, Some(&model));
        assert_eq!(
            with_model.env["OPENAI_BASE_URL"],
            "http://127.0.0.1:8471/v1"
        );
        assert_eq!(with_model.env["OPENAI_API_KEY"], "cto");
        assert_eq!(spec.argv, argv, "no shell, no splitting, no expansion");
        assert_eq!(spec.env["CTO_TASK"], "/s/brief.md");
        assert_eq!(spec.env["CTO_CONTRACT"], "/s/task-contract.json");
        assert_eq!(spec.env["HOME"], "/s/home");
        assert!(!spec.env.keys().any(|name| name.starts_with("CTO_HARNESS")));
        assert_eq!(
            spec.scratch_files,
            [
                ("brief.md".to_owned(), b"# Task\n".to_vec()),
                ("task-contract.json".to_owned(), b"{}".to_vec())
            ]
        );
        assert_eq!(
            (engine.lane(), engine.adapter_revision()),
            (Lane::Command, 1)
        );
    }
}
