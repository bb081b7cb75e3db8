//! The red team: every behaviour of the corpus is tried by a real program in a real run, with controls that must work.
//!
//! Attempts that do not disturb each other share a run. What is judged is what the sealed pack shows and what lies
//! around the run: the bait, the listeners, the processes and the mounts of this machine. Each run has a home, a config
//! and a repository of its own; its agent meets nothing of the operator's but by paths that it must not reach.

mod corpus;
mod document;
mod forged;
mod home;
mod judge;
mod killed;
mod lines;
mod machine;
mod model;
mod planted;
mod replayed;
mod scene;
mod scenes;
mod signed_grant;
mod site;
mod task;
mod traces;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cto_contract::outputs::{
    BehaviourStatus, CheckedBehaviour, NotTried, ValidateRedteamOutput, ValidateRedteamTag,
};
use cto_runner::Environment;
use cto_sandbox::{Launcher, StopToken};

pub use corpus::{Behaviour, CORPUS, NOT_COVERED, Need, behaviour, not_covered};
pub use document::document;
pub use home::{UnfitHome, check_home};

use crate::failures::{ValidateError, make_directory};
use crate::pool::{Ended, work_off};
use judge::{Shown, Verdict};
use machine::Machine;
use scene::{Claim, Meddling, Scene};
use site::SceneSite;

/// What to try, and where.
pub struct Options {
    /// An own directory for this validation is made in here.
    pub directory: PathBuf,
    /// The caller's environment: its `PATH`, and where its secrets would be.
    pub env: Environment,
    pub launcher: Launcher,
    /// The harness as a program, for the one behaviour that kills it.
    pub program: PathBuf,
    pub jobs: usize,
    /// Numbers of behaviours; empty means all.
    pub only: Vec<u8>,
}

/// What became of one scene: verdicts by behaviour, or a control that did not hold.
struct Done {
    scene: &'static str,
    verdicts: Vec<(u8, Verdict)>,
    /// What is wrong with a control.
    errors: Vec<String>,
}

impl Done {
    /// How many things are not as they must be.
    fn wrong(&self) -> usize {
        let wrong = self.verdicts.iter().filter(|(_, v)| !v.errors.is_empty());
        wrong.count() + self.errors.len()
    }
}

/// Plays all scenes side by side. `told` hears of each as it ends, with the number of errors in it.
pub fn validate(
    options: &Options,
    stop: &StopToken,
    told: &mut dyn FnMut(&str, usize),
) -> Result<ValidateRedteamOutput, ValidateError> {
    let directory = make_directory(&options.directory, "redteam")?;
    let machine = Machine::look(options);
    let wanted = |number: u8| {
        let chosen = options.only.is_empty() || options.only.contains(&number);
        let tried = not_covered(number).is_none();
        behaviour(number).filter(|b| chosen && tried && machine.lacks(b).is_none())
    };
    let chosen: Vec<Cast> = scenes::CONTROLS
        .iter()
        .map(|scene| (scene, Vec::new()))
        .chain(scenes::every().filter_map(|scene| {
            let tries: Tries = scene
                .tries
                .iter()
                .filter_map(|(number, claims)| Some((wanted(*number)?, *claims)))
                .collect();
            (!tries.is_empty()).then_some((scene, tries))
        }))
        .collect();
    let perform = |(scene, tries): &Cast| play(scene, tries, &directory, options, &machine, stop);
    let ends = work_off(&chosen, options.jobs, stop, perform, |(scene, _), ended| {
        if let Ended::Done(one) = ended {
            told(scene.name, one.wrong());
        }
    });
    let all = ends.len();
    let done: Vec<Done> = chosen
        .iter()
        .zip(ends)
        .filter_map(|((scene, tries), ended)| match ended {
            Ended::Done(one) => Some(one),
            Ended::Panicked(why) => Some(failed(scene, tries, format!("panicked: {why}"))),
            Ended::NotStarted => None,
        })
        .collect();
    let mut team = ValidateRedteamOutput {
        schema_version: ValidateRedteamTag,
        ok: false,
        directory: directory.display().to_string(),
        checked: Vec::new(),
        errors: Vec::new(),
        not_covered: not_tried(),
    };
    if done.len() < all {
        team.errors
            .push(format!("stopped after {} of {all} runs", done.len()));
    }
    collect(&mut team, done, options, &machine);
    team.ok = team.errors.is_empty();
    Ok(team)
}

/// A scene and what of it is tried now.
type Cast = (&'static Scene, Tries);
type Tries = Vec<(&'static Behaviour, &'static [Claim])>;

/// Puts the verdicts of all scenes together, a row for each behaviour that was asked for.
fn collect(
    team: &mut ValidateRedteamOutput,
    done: Vec<Done>,
    options: &Options,
    machine: &Machine,
) {
    let mut by_number: BTreeMap<u8, Vec<(&'static str, Verdict)>> = BTreeMap::new();
    for one in done {
        let errors = one.errors.into_iter();
        team.errors
            .extend(errors.map(|e| format!("{}: {e}", one.scene)));
        for (number, verdict) in one.verdicts {
            by_number
                .entry(number)
                .or_default()
                .push((one.scene, verdict));
        }
    }
    let asked = CORPUS.iter().filter(|b| {
        not_covered(b.number).is_none()
            && (options.only.is_empty() || options.only.contains(&b.number))
    });
    for behaviour in asked {
        let verdicts = by_number.remove(&behaviour.number).unwrap_or_default();
        let row = row(behaviour, verdicts, machine);
        if row.status == BehaviourStatus::Fail {
            let reason = row.reason.as_deref().unwrap_or_default();
            team.errors
                .push(format!("{} {}: {reason}", row.behaviour, row.name));
        }
        team.checked.push(row);
    }
}

fn row(
    behaviour: &Behaviour,
    mut verdicts: Vec<(&'static str, Verdict)>,
    machine: &Machine,
) -> CheckedBehaviour {
    verdicts.sort_by_key(|(scene, _)| *scene);
    let skipped = machine.lacks(behaviour);
    let all = |pick: fn(&Verdict) -> &Vec<String>| -> Vec<String> {
        let mut sentences: Vec<String> = Vec::new();
        for sentence in verdicts.iter().flat_map(|(_, verdict)| pick(verdict)) {
            if !sentences.contains(sentence) {
                sentences.push(sentence.clone());
            }
        }
        sentences
    };
    let errors = all(|v| &v.errors);
    let (status, reason) = match (skipped, verdicts.is_empty(), errors.is_empty()) {
        (Some(lacking), _, _) => (BehaviourStatus::Skipped, Some(lacking)),
        (None, true, _) => (
            BehaviourStatus::Fail,
            Some("it came to no verdict".to_owned()),
        ),
        (None, false, false) => (BehaviourStatus::Fail, Some(errors.join("; "))),
        (None, false, true) => (BehaviourStatus::Pass, None),
    };
    CheckedBehaviour {
        behaviour: behaviour.number,
        name: behaviour.name.to_owned(),
        expected: behaviour.expected.to_owned(),
        seen: all(|v| &v.seen).join("; "),
        needs: behaviour
            .needs
            .iter()
            .map(|n| n.word().to_owned())
            .collect(),
        status,
        reason,
        runs: verdicts
            .iter()
            .map(|(scene, _)| (*scene).to_owned())
            .collect(),
    }
}

fn not_tried() -> Vec<NotTried> {
    let entry = |b: &Behaviour| {
        Some(NotTried {
            behaviour: b.number,
            name: b.name.to_owned(),
            reason: not_covered(b.number)?.to_owned(),
        })
    };
    CORPUS.iter().filter_map(entry).collect()
}

fn play(
    scene: &'static Scene,
    tries: &Tries,
    directory: &Path,
    options: &Options,
    machine: &Machine,
    stop: &StopToken,
) -> Done {
    let done = if scene.meddling == Meddling::KillHarness {
        judge_killed(scene, tries, directory, options, machine).map(|verdicts| (verdicts, vec![]))
    } else if tries.is_empty() {
        control(scene, directory, options, machine, stop).map(|errors| (vec![], errors))
    } else {
        SceneSite::make(scene, directory, options, machine)
            .and_then(|site| site.play(stop))
            .map_err(|e| cto_runner::error_chain(&e))
            .and_then(|played| judge::judge(scene, &played, tries))
            .map(|verdicts| (verdicts, vec![]))
    };
    match done {
        Ok((verdicts, errors)) => Done {
            scene: scene.name,
            verdicts,
            errors,
        },
        Err(why) => failed(scene, tries, why),
    }
}

/// A scene that could not be played to its end: nothing in it came out as it must.
fn failed(scene: &'static Scene, tries: &Tries, why: String) -> Done {
    let each = |(behaviour, _): &(&'static Behaviour, _)| {
        let verdict = Verdict {
            seen: Vec::new(),
            errors: vec![why.clone()],
        };
        (behaviour.number, verdict)
    };
    Done {
        scene: scene.name,
        verdicts: tries.iter().map(each).collect(),
        errors: if tries.is_empty() {
            vec![why.clone()]
        } else {
            Vec::new()
        },
    }
}

/// The same site and an honest agent.
fn control(
    scene: &Scene,
    directory: &Path,
    options: &Options,
    machine: &Machine,
    stop: &StopToken,
) -> Result<Vec<String>, String> {
    let played = SceneSite::make(scene, directory, options, machine)
        .and_then(|site| site.play(stop))
        .map_err(|e| cto_runner::error_chain(&e))?;
    let shown = Shown::read(&played.seen)?;
    let mut wrong = shown.passed();
    wrong.extend(shown.sound(scene));
    Ok(wrong)
}

fn judge_killed(
    scene: &Scene,
    tries: &Tries,
    directory: &Path,
    options: &Options,
    machine: &Machine,
) -> Result<Vec<(u8, Verdict)>, String> {
    let seen = killed::kill_supervisor(directory, options, machine)
        .map_err(|e| cto_runner::error_chain(&e))?;
    let shown = Shown::read(&seen)?;
    let whole = shown.sound(scene);
    let judged = tries.iter().map(|(behaviour, claims)| {
        let mut verdict = shown.judge(behaviour, claims, None);
        verdict.errors.extend(whole.iter().cloned());
        (behaviour.number, verdict)
    });
    Ok(judged.collect())
}

#[cfg(test)]
mod tests;
