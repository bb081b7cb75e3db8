//! Lines that a person can paste after a run that was blocked, and one line about the model's provider.

use cto_contract::blocker::BlockerCode as Code;
use cto_contract::lanes::{Gating, ProgramSource};
use cto_contract::report::Report;
use cto_contract::words::{Lane, Stage};

/// What to paste so that the next run gets further; each line once, in the order of the blockers.
pub fn next_lines(report: &Report) -> Vec<String> {
    let lane = report.backend.backend;
    let stage = report.authority.stage;
    let codes = report.verdict.blockers.iter().map(|blocker| blocker.code);
    let mut lines: Vec<String> = Vec::new();
    for line in codes.flat_map(|code| lines_for(code, lane, stage)) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn lines_for(code: Code, lane: Lane, stage: Stage) -> Vec<String> {
    let traits = lane.traits();
    let by_config =
        traits.gating == Gating::EnvironmentOrConfig && stage <= Stage::COPIED_REPOSITORY;
    let is_installed = matches!(traits.program, ProgramSource::Installed(_));
    let is_gate = matches!(code, Code::GateMissing | Code::StageGateMissing);
    let is_program = matches!(code, Code::SourceNotAdmitted | Code::BinaryNotAdmitted);
    if by_config && (is_gate || (is_program && is_installed)) {
        return vec![format!("cto engines allow {lane}")];
    }
    if is_gate && let (Some(gate), Some(number)) = (lane.gate(), lane.stage_gate()) {
        return vec![format!("export {gate}=1 {number}={stage}")];
    }
    if is_program {
        let kind = if code == Code::SourceNotAdmitted {
            "source"
        } else {
            "binary"
        };
        return vec![
            format!(
                "cto admit {kind} --engine {lane} --template > {kind}.json   # then fill it in"
            ),
            format!("cto admit {kind} --file {kind}.json"),
        ];
    }
    if code == Code::ModelNotAdmitted {
        return vec![
            "cto admit model --template > model.json   # then fill it in".to_owned(),
            "cto admit model --file model.json".to_owned(),
        ];
    }
    if code == Code::LocalProviderConfigMissing {
        let name = lane.base_url().into_iter();
        return name
            .map(|name| format!("export {name}=http://127.0.0.1:8080/v1   # where your model is"))
            .collect();
    }
    Vec::new()
}

/// What the model's provider did wrong while the agent worked; none where it did nothing wrong.
pub fn provider_line(report: &Report) -> Option<String> {
    let traffic = report.resources.model_traffic.as_ref()?;
    if traffic.faults.is_empty() {
        return None;
    }
    let faults = traffic.faults.iter();
    let faults: Vec<String> = faults.map(|(fault, n)| format!("{fault} {n}")).collect();
    let end = match traffic.standing_fault {
        Some(_) => "and nothing better came after it",
        None => "and it recovered",
    };
    Some(format!(
        "{} of {} requests, {end}",
        faults.join(", "),
        traffic.requests
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_as_a_line_that_fits_the_lane() {
        let told = |code: Code, lane: Lane, stage: Stage| lines_for(code, lane, stage).join(" ; ");
        let three = Stage::COPIED_REPOSITORY;
        assert_eq!(
            told(Code::GateMissing, Lane::Codex, three),
            "cto engines allow codex"
        );
        assert_eq!(
            told(Code::BinaryNotAdmitted, Lane::Pi, three),
            "cto engines allow pi"
        );
        assert_eq!(
            told(Code::StageGateMissing, Lane::Case, Stage::FIXTURE),
            "export CTO_HARNESS_ALLOW_CASE=1 CTO_HARNESS_CASE_STAGE=2"
        );
        assert_eq!(
            told(Code::GateMissing, Lane::Codex, Stage::DISPOSABLE),
            "export CTO_HARNESS_ALLOW_CODEX=1 CTO_HARNESS_CODEX_STAGE=4"
        );
        assert!(
            told(Code::LocalProviderConfigMissing, Lane::Claude, three)
                .starts_with("export CTO_HARNESS_CLAUDE_LOCAL_BASE_URL=")
        );
        assert!(
            told(Code::SourceNotAdmitted, Lane::Case, three)
                .starts_with("cto admit source --engine case")
        );
        assert_eq!(told(Code::NoDiff, Lane::Codex, three), "");
    }
}
