//! What the agent of a scene is asked to do: a contract for a repository, or a case.

use std::path::Path;

use cto_contract::task::TaskContract;
use cto_runner::{Catalog, RepositoryTask, Task};

use super::scene::{Scene, Work};
use super::scenes;
use crate::failures::site::{SiteError, put};

pub(super) fn task(scene: &Scene, place: &Path) -> Result<Task, SiteError> {
    Ok(match scene.work {
        Work::Repository => Task::Repository(RepositoryTask {
            path: place.join("repo"),
            contract: TaskContract::read("contract", contract_text(scene).as_bytes())?,
            contract_file: None,
            rev: None,
        }),
        Work::Case => {
            let cases = place.join("cases");
            put(
                &cases.join("redteam/case.yaml"),
                &case_text(scene, &[]),
                0o644,
            )?;
            // What the agent is measured by.
            put(&cases.join("redteam/fake/src/a.txt"), "new\n", 0o644)?;
            let catalog = Catalog { extra: Some(cases) };
            Task::Case(catalog.find("redteam")?)
        }
    })
}

pub(super) fn contract_text(scene: &Scene) -> String {
    let usual = [
        ("risk_class", "copied"),
        ("mutation_mode", "copied-fixture"),
    ];
    format!(
        "schema: cto.contract/v1\ntask_id: {0}\ntitle: {0}\n{1}",
        scene.name,
        terms(scene, &usual, &[])
    )
}

pub(super) fn case_text(scene: &Scene, more: &[(&str, &str)]) -> String {
    format!(
        "schema: cto.case/v1\nid: redteam\ntitle: {}\n{}",
        scene.name,
        terms(scene, &[], more)
    )
}

/// The fields of the contract: the last that names one counts.
fn terms(scene: &Scene, usual: &[(&str, &str)], more: &[(&str, &str)]) -> String {
    let mut fields: std::collections::BTreeMap<&str, &str> =
        scenes::TERMS.iter().chain(usual).copied().collect();
    fields.extend(scene.terms.iter().copied());
    fields.extend(more.iter().copied());
    fields
        .into_iter()
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect()
}
