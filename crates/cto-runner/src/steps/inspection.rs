//! Gathers what a backend is given and the places that it must not know; the rules search the one for the other.

use cto_agent::{LanePlan, ScratchContent};
use cto_contract::admission::Admission;
use cto_contract::lanes::LadderRule;
use cto_contract::stage_proof::TargetInspection;
use cto_contract::words::Stage;
use cto_evidence::canonical::to_canonical;
use cto_rules::inspection::{Given, Inputs, Sought, inspect};

use crate::admissions;
use crate::open_run::{OpenRun, StepError};
use crate::source::Source;

/// An environment name of the caller's whose value is a path to a repository.
const REPOSITORY_NAMES: [&str; 1] = ["SANDCASTLE_REPO"];

/// Searches everything that the backend gets, where it must know no target.
pub(super) fn inspected(
    run: &OpenRun<'_>,
    plan: &LanePlan,
    source: Option<&Source>,
) -> Result<Option<TargetInspection>, StepError> {
    let stage = run.state().started.stage;
    let is_searched = run.request.lane.traits().ladder == LadderRule::Climbs
        && (Stage::FIXTURE..=Stage::DISPOSABLE).contains(&stage);
    if !is_searched {
        return Ok(None);
    }
    let contract =
        to_canonical(&run.contract).map_err(|e| StepError::not_written("task-contract", &e))?;
    Ok(Some(inspect(
        &sought(run, source),
        &inputs(run, plan, contract),
    )))
}

/// Every place that a backend must not hear of, by a name that fits a pack.
fn sought(run: &OpenRun<'_>, source: Option<&Source>) -> Vec<Sought> {
    let mut sought = Vec::new();
    let mut add = |name: String, path: &std::path::Path| {
        let spellings = [Some(path.to_owned()), path.canonicalize().ok()];
        for path in spellings.into_iter().flatten() {
            let path = path.to_string_lossy().into_owned();
            let one = Sought {
                name: name.clone(),
                path,
            };
            if !sought.contains(&one) {
                sought.push(one);
            }
        }
    };
    if let Some(source) = source {
        let repository = &source.repository;
        if let Some(top) = repository.work_tree() {
            add("source repository".to_owned(), top);
        }
        add(
            "git directory of the source".to_owned(),
            repository.git_directory(),
        );
    }
    let harness = run.harness;
    // Records that can't be read admit nothing; their own gates say so.
    for file in admissions::scan(&harness.config.dir).unwrap_or_default() {
        if let Ok(record) = &file.found
            && let Admission::Target(target) = &record.admission
        {
            let path = target.target_repository_path.as_str();
            add(
                format!("target {}", target.id().unwrap_or_default()),
                std::path::Path::new(path),
            );
        }
    }
    let named = REPOSITORY_NAMES.iter();
    let named = named.filter_map(|name| Some((*name, harness.env.get(name)?)));
    for (name, path) in named.filter(|(_, path)| path.starts_with('/')) {
        add(format!("repository of {name}"), std::path::Path::new(path));
    }
    for (number, root) in harness.config.harness.protected_roots.iter().enumerate() {
        add(
            format!("protected root {}", number + 1),
            std::path::Path::new(root),
        );
    }
    add("config directory".to_owned(), &harness.config.dir);
    add("evidence of other runs".to_owned(), &harness.home.runs());
    add("keys of the harness".to_owned(), &harness.home.keys());
    sought
}

/// Everything that the backend is given, by names that fit a pack.
fn inputs(run: &OpenRun<'_>, plan: &LanePlan, contract: Vec<u8>) -> Inputs {
    let numbered = |(number, text): (usize, &String)| {
        Given::new(format!("argument {number}"), text.as_bytes().to_vec())
    };
    let kept: Vec<&str> = plan.pack_files.iter().map(|f| f.path.as_str()).collect();
    let mut given = Inputs {
        task_contract: vec![Given::new("task-contract.json", contract)],
        command_arguments: plan.argv.iter().enumerate().map(numbered).collect(),
        environment: plan
            .env
            .iter()
            .map(|(name, value)| Given::new(name.as_str(), value.as_bytes().to_vec()))
            .collect(),
        config: plan
            .pack_files
            .iter()
            .map(|file| Given::new(format!("backend/{}", file.path), file.bytes.clone()))
            .collect(),
        runtime_inputs: run
            .inputs
            .iter()
            .map(|input| {
                let plan = input.plan();
                Given::new(format!("input {}", plan.from), plan.at.into_bytes())
            })
            .collect(),
    };
    for entry in &plan.scratch {
        let bytes = match &entry.content {
            ScratchContent::Directory => continue,
            ScratchContent::File(bytes) | ScratchContent::Program(bytes) => bytes.clone(),
        };
        let input = Given::new(format!("$SCRATCH/{}", entry.path), bytes);
        let is_config = kept.iter().any(|name| entry.path.ends_with(name));
        match is_config {
            true => given.config.push(input),
            false => given.runtime_inputs.push(input),
        }
    }
    given
}
