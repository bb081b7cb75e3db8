//! What a person does next so that a lane can run on a repository, one thing at a time, in the order in which they are needed.

use cto_contract::lanes::{Gating, ProgramSource};
use cto_contract::words::Lane;

use crate::programs::{ProgramProblem, packages_of, remedy};

/// How a lane stands, as far as that is known without asking anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineFacts {
    pub lane: Lane,
    pub is_disabled: bool,
    /// What is the matter with its program; none where it is there, or comes with the command line.
    pub problem: Option<ProgramProblem>,
    /// Whether both gates are open, for a repository (stage 3).
    pub is_open: bool,
    pub source_admitted: bool,
    pub binary_admitted: bool,
    /// Whether a record admits the pair that the environment asks for.
    pub model_admitted: bool,
}

/// The next command or setting; none where nothing is missing, or nothing can be done.
pub fn next_command(facts: &EngineFacts) -> Option<String> {
    let lane = facts.lane;
    let traits = lane.traits();
    if !traits.is_built_in || traits.gating == Gating::Open {
        return None;
    }
    if facts.is_disabled {
        return Some(format!("take `disabled` of {lane} out of harness.yaml"));
    }
    if let Some(problem) = &facts.problem {
        let installs = packages_of(lane).first();
        return Some(match (problem, installs) {
            (ProgramProblem::Missing | ProgramProblem::NativeMissing, Some(package)) => {
                format!("npm install -g {package}")
            }
            (problem, _) => remedy(lane, problem),
        });
    }
    let by_config = traits.gating == Gating::EnvironmentOrConfig;
    let has_records = facts.source_admitted && facts.binary_admitted;
    let needs_records = matches!(traits.program, ProgramSource::Installed(_));
    if by_config && (!facts.is_open || (needs_records && !has_records)) {
        return Some(format!("cto engines allow {lane}"));
    }
    if !facts.is_open {
        let names = [lane.gate(), lane.stage_gate()].into_iter().flatten();
        let [gate, stage] = &names.collect::<Vec<_>>()[..] else {
            return None;
        };
        return Some(format!("export {gate}=1 {stage}=2"));
    }
    if needs_records && !facts.source_admitted {
        return Some(format!("cto admit source --engine {lane}"));
    }
    if needs_records && !facts.binary_admitted {
        return Some(format!("cto admit binary --engine {lane}"));
    }
    if needs_records && !facts.model_admitted {
        return Some("cto admit model".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(lane: Lane) -> EngineFacts {
        EngineFacts {
            lane,
            is_disabled: false,
            problem: None,
            is_open: true,
            source_admitted: true,
            binary_admitted: true,
            model_admitted: true,
        }
    }

    #[test]
    fn one_thing_at_a_time_until_nothing_is_missing() {
        let mut codex = EngineFacts {
            is_disabled: true,
            problem: Some(ProgramProblem::Missing),
            is_open: false,
            source_admitted: false,
            binary_admitted: false,
            model_admitted: false,
            ..ready(Lane::Codex)
        };
        let next = |facts: &EngineFacts| next_command(facts).unwrap_or_default();
        assert_eq!(next(&codex), "take `disabled` of codex out of harness.yaml");
        codex.is_disabled = false;
        assert_eq!(next(&codex), "npm install -g @openai/codex");
        codex.problem = None;
        assert_eq!(next(&codex), "cto engines allow codex");
        codex.is_open = true;
        assert_eq!(next(&codex), "cto engines allow codex");
        (codex.source_admitted, codex.binary_admitted) = (true, true);
        assert_eq!(next(&codex), "cto admit model");
        codex.model_admitted = true;
        assert_eq!(next(&codex), "");
    }

    #[test]
    fn case_is_opened_by_the_environment_and_fake_and_what_is_not_built_need_nothing() {
        let closed = EngineFacts {
            is_open: false,
            ..ready(Lane::Case)
        };
        assert_eq!(
            next_command(&closed).unwrap(),
            "export CTO_HARNESS_ALLOW_CASE=1 CTO_HARNESS_CASE_STAGE=2"
        );
        for lane in [Lane::Fake, Lane::Acp] {
            let nothing = EngineFacts {
                is_open: false,
                ..ready(lane)
            };
            assert_eq!(next_command(&nothing), None, "{lane}");
        }
        let command = EngineFacts {
            is_open: false,
            ..ready(Lane::Command)
        };
        assert_eq!(next_command(&command).unwrap(), "cto engines allow command");
    }
}
