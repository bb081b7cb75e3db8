//! Gates of the lane: what opens it, and whether it is there.

use cto_contract::blocker::BlockerCode;
use cto_contract::eligibility::Gate;
use cto_contract::lanes::Gating;
use cto_contract::text;
use cto_contract::words::{Lane, Stage};

use super::facts::Work;
use super::judgement::{ENVIRONMENT, Finding, Judgement, LaneFacts, refused, refused_by};

/// Most characters of an environment value that are shown.
const VALUE_CHARS: usize = 40;
const CONFIG: &str = "harness.yaml";

/// Only the exact value `1` opens a lane.
pub(super) fn lane_gate(facts: &LaneFacts<'_>) -> Finding {
    let Some(name) = facts.lane.gate() else {
        return facts.given(ENVIRONMENT, "not needed", Judgement::NotRequired);
    };
    let missing = |message| refused_by(&name, BlockerCode::GateMissing, message);
    let settings = facts.settings();
    let by_config = settings.config.allow
        && facts.lane.traits().gating == Gating::EnvironmentOrConfig
        && facts.stage().stage <= Stage::COPIED_REPOSITORY;
    match settings.gate.as_deref() {
        None if by_config => facts.given(CONFIG, "open", Judgement::Passed),
        Some("1") => facts.given(ENVIRONMENT, "open", Judgement::Passed),
        None => facts.given(
            ENVIRONMENT,
            format!("{name} is absent"),
            missing(format!("`{name}` is not set to exactly `1`")),
        ),
        Some(value) => {
            let set = format!("is set to {}, which counts as absent", shown(value));
            let message = format!("`{name}` {set}: only `1` opens it");
            facts.given(ENVIRONMENT, format!("{name} {set}"), missing(message))
        }
    }
}

/// Only the exact digit of the stage that is asked for opens it; stage 1 never opens.
pub(super) fn stage_gate(facts: &LaneFacts<'_>) -> Finding {
    let Some(name) = facts.lane.stage_gate() else {
        return facts.given(ENVIRONMENT, "not needed", Judgement::NotRequired);
    };
    let asked = facts.stage();
    if asked.is_permitted {
        let source = match facts.settings().stage {
            Some(_) => ENVIRONMENT,
            None => CONFIG,
        };
        return facts.given(source, "open", Judgement::Passed);
    }
    let value = facts.settings().stage.as_deref();
    let set = value.map_or_else(
        || "is absent".to_owned(),
        |value| format!("is set to {}", shown(value)),
    );
    let message = match (asked.stage, value) {
        (Stage::FIRST, _) => format!(
            "`{name}` {set}, and stage 1 starts no process: only the exact digit of a later stage opens one"
        ),
        (stage, None) => format!("`{name}` is not set to exactly `{stage}`"),
        (stage, Some(_)) => {
            format!("`{name}` {set}, which counts as absent: only `{stage}` opens it")
        }
    };
    let missing = refused_by(&name, BlockerCode::StageGateMissing, message);
    facts.given(ENVIRONMENT, format!("{name} {set}"), missing)
}

/// Whether this build has the lane, the operator left it on, and it can do work of this kind.
pub(super) fn lane_available(facts: &LaneFacts<'_>) -> Finding {
    let lane = facts.lane;
    let why = if facts.settings().is_disabled {
        format!("the {lane} lane is switched off in harness.yaml")
    } else if !facts.settings().is_built_in {
        format!("the {lane} lane is not part of this version")
    } else if lane == Lane::Fake && facts.asked.work == Work::Repository {
        // It has only the changes that come with the shipped cases.
        format!("the {lane} lane does shipped cases, not work on a repository")
    } else {
        return facts.given(SOURCE, "ok", Judgement::Passed);
    };
    let gate = Gate::LaneAvailable;
    let missing = refused(
        gate,
        BlockerCode::ProviderUnavailable,
        format!("`{gate}`: {why}"),
    );
    facts.given(SOURCE, why, missing)
}

const SOURCE: &str = "this binary and harness.yaml";

fn shown(value: &str) -> String {
    format!("\"{}\"", text::shorten(value, VALUE_CHARS))
}
