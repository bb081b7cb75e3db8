//! What there is to choose from and to look at: cases, lanes and runs, as every face lists them.

use std::error::Error as _;

use cto_contract::lanes::ProgramSource;
use cto_contract::outputs::{
    CaseOutput, CaseRow, CaseTag, CasesOutput, CasesTag, EngineProgram, EngineRow, EnginesOutput,
    EnginesTag,
};
use cto_contract::trust::Origin;
use cto_contract::words::{Lane, ModelAdmissionStatus, MutationMode, SourceAdmissionStatus, Stage};
use cto_rules::admission::{
    ModelRequest, Moment, ProgramSeen, judge_binary, judge_model, judge_source,
};
use cto_rules::authority::AdmissionBook;
use cto_rules::engines::{EngineFacts, next_command};
use cto_rules::packages::manifest;
use cto_rules::programs::ProgramProblem;
use cto_rules::verdicts::Fault;
use cto_store::{Filter, LiveRun, Page, RunRow, RunsOutput, RunsTag, StoreError};

use crate::adapters::program_seen;
use crate::admissions::Authority;
use crate::cases::{Case, CaseError, Catalog};
use crate::config::Config;
use crate::environment::Environment;
use crate::provenance::{digest_on_disk, ledger_digest};
use crate::reading::RunsHome;
use crate::recover::live_runs;
use crate::reference::is_pack;
use crate::retention::is_buried;
use crate::settings::is_disabled;
use crate::{clock, installed, model};

/// Lists the cases. One bad case of a directory does not hide the others.
pub fn list_cases(catalog: &Catalog) -> Result<CasesOutput, CaseError> {
    let ids = catalog.ids()?;
    Ok(CasesOutput {
        schema_version: CasesTag,
        cases: ids.into_iter().map(|id| case_row(catalog, id)).collect(),
    })
}

fn case_row(catalog: &Catalog, id: String) -> CaseRow {
    let read = catalog
        .find(&id)
        .and_then(|case| Ok((case.cheats()?, case)));
    match read {
        Ok((cheats, case)) => CaseRow {
            id,
            title: Some(case.file.title.clone()),
            embedded: case.is_embedded(),
            allowed_paths: case
                .file
                .allowed_paths
                .iter()
                .map(ToString::to_string)
                .collect(),
            checks: case.file.verification_commands.len() as u64,
            cheats: cheats.len() as u64,
            problem: None,
        },
        Err(error) => CaseRow {
            id,
            title: None,
            embedded: false,
            allowed_paths: Vec::new(),
            checks: 0,
            cheats: 0,
            problem: Some(
                error
                    .source()
                    .map_or_else(|| error.to_string(), ToString::to_string),
            ),
        },
    }
}

/// Shows one case in full.
pub fn show_case(case: &Case) -> Result<CaseOutput, CaseError> {
    Ok(CaseOutput {
        schema_version: CaseTag,
        id: case.file.id.clone(),
        embedded: case.is_embedded(),
        cheats: case.cheats()?,
        contract: case.file.contract(),
    })
}

/// Lists the lanes and whether their gates are open.
/// Programs are looked at and hashed; none is started, and nobody is asked.
pub fn list_engines(config: &Config, env: &Environment) -> EnginesOutput {
    // Up to stage 3 a record counts without a signature.
    let authority = Authority::read(&config.dir, env, None, &AdmissionBook::default());
    let row = |lane: &Lane| {
        let gate = lane.gate();
        let stage_gate = lane.stage_gate();
        let digit = stage_gate.as_deref().and_then(|name| env.get(name));
        let by_config = config.harness.gate(*lane);
        let stage = match digit {
            // Only the exact digit counts: `02` or ` 2` is absent.
            Some(digit) => Stage::all().find(|stage| stage.to_string() == digit),
            None => by_config.stage,
        };
        let seen = look_at_engine(*lane, env, &authority);
        let mut row = EngineRow {
            wires: model::wires(*lane),
            program: seen.program,
            source_admitted: seen.source_admitted,
            binary_admitted: seen.binary_admitted,
            model_admitted: seen.model_admitted,
            reasons: seen.reasons,
            next: None,
            lane: *lane,
            default: *lane == Lane::Fake,
            available: lane.traits().is_built_in,
            disabled: is_disabled(*lane, &config.harness),
            gate_open: gate.as_deref().is_none_or(|name| match env.get(name) {
                Some(value) => value == "1",
                None => by_config.allow,
            }),
            gate,
            stage_gate,
            stage: stage.map(Stage::number),
        };
        let is_open = row.gate_open && stage.is_some();
        row.next = next_command(&EngineFacts {
            lane: *lane,
            is_disabled: row.disabled,
            problem: seen.problem,
            is_open,
            source_admitted: row.source_admitted.unwrap_or(true),
            binary_admitted: row.binary_admitted.unwrap_or(true),
            model_admitted: row.model_admitted.unwrap_or(true),
        });
        row
    };
    EnginesOutput {
        schema_version: EnginesTag,
        default: Lane::Fake,
        engines: Lane::ALL.iter().map(row).collect(),
    }
}

/// What is installed of a lane, and what records say of it.
#[derive(Default)]
struct EngineSeen {
    program: Option<EngineProgram>,
    problem: Option<ProgramProblem>,
    source_admitted: Option<bool>,
    binary_admitted: Option<bool>,
    model_admitted: Option<bool>,
    reasons: Vec<String>,
}

fn look_at_engine(lane: Lane, env: &Environment, authority: &Authority) -> EngineSeen {
    let traits = lane.traits();
    if !traits.is_built_in || !matches!(traits.program, ProgramSource::Installed(_)) {
        return EngineSeen::default();
    }
    let (program, problem, binary) = program_of(lane, env);
    let moment = Moment {
        stage: Stage::COPIED_REPOSITORY,
        at: clock::now(),
    };
    let records = &authority.records;
    let source = judge_source(records, lane, Some(MutationMode::CopiedFixture), moment);
    let binary = judge_binary(records, lane, binary.as_ref(), moment);
    let asks_nothing = ModelRequest::default();
    let request = authority.requests.get(&lane).unwrap_or(&asks_nothing);
    let model = judge_model(records, request, lane, moment);
    let is_model = model.status == ModelAdmissionStatus::Admitted;
    let is_source = source.status == SourceAdmissionStatus::Admitted;
    let refusals = [
        (!is_source).then(|| format!("source: {}", source.why)),
        binary.as_ref().err().map(|why| format!("binary: {why}")),
        model
            .refusal
            .as_ref()
            .map(|(_, why)| format!("model: {why}")),
    ];
    EngineSeen {
        program: Some(program),
        problem,
        source_admitted: Some(is_source),
        binary_admitted: Some(binary.is_ok()),
        model_admitted: Some(is_model),
        reasons: refusals.into_iter().flatten().collect(),
    }
}

/// The program as people see it, what is the matter with it, and the same as a record sees it.
fn program_of(
    lane: Lane,
    env: &Environment,
) -> (EngineProgram, Option<ProgramProblem>, Option<ProgramSeen>) {
    let path = env.get("PATH").unwrap_or_default();
    let (installed, problem) = match installed::find(env, lane) {
        Ok(installed) => (Some(installed), None),
        Err(Fault::ProgramUnusable { problem, .. }) => (None, Some(problem)),
        Err(_) => (None, Some(ProgramProblem::Missing)),
    };
    let seen = match problem {
        None => program_seen(env, lane, &[], path),
        Some(_) => None,
    };
    let package = installed.as_ref().and_then(|found| found.package.as_ref());
    let version = package.and_then(|package| {
        let bytes = std::fs::read(package.root.join("package.json")).ok()?;
        Some(manifest(&bytes)?.version)
    });
    let program = EngineProgram {
        path: seen.as_ref().map(|seen| seen.path.clone()),
        version,
        digest: seen.as_ref().map(|seen| seen.digest.clone()),
        package_digest: seen.as_ref().and_then(|seen| seen.package.clone()),
        problem: problem.as_ref().map(ToString::to_string),
    };
    (program, problem, seen)
}

/// Lists a page of runs, newest first, with what goes on now and what was removed.
pub fn list_runs(place: &RunsHome, filter: &Filter, page: &Page) -> Result<RunsOutput, StoreError> {
    let mut listing = place.store().list(filter, page)?;
    let live = live_runs(place.home()).into_iter();
    let (mut removed, mut missing, mut mismatched) = (Vec::new(), Vec::new(), Vec::new());
    for row in &mut listing.rows {
        row.origin = origin_now(place, row);
        match look(place, row)? {
            PackState::AsKnown => {}
            PackState::Removed => removed.push(row.run_id.clone()),
            PackState::Missing => missing.push(row.run_id.clone()),
            PackState::Mismatched => mismatched.push(row.run_id.clone()),
        }
    }
    Ok(RunsOutput {
        schema_version: RunsTag,
        live: live
            .map(|(run_id, holder)| LiveRun {
                run_id,
                pid: holder.pid,
            })
            .collect(),
        removed,
        missing,
        mismatched,
        rows: listing.rows,
        next: listing.next,
    })
}

/// What the keys that count now say of the one that sealed a run: it may have been revoked since.
fn origin_now(place: &RunsHome, row: &RunRow) -> Option<Origin> {
    let keyid = row.keyid.as_ref()?;
    let mut keys = place.trusted().iter();
    let key = keys.find(|key| key.keyid == *keyid);
    Some(
        key.zip(row.finished_at)
            .map_or(Origin::Unknown, |(key, at)| key.judge(at)),
    )
}

/// How the pack of a row is found.
enum PackState {
    AsKnown,
    Removed,
    Missing,
    Mismatched,
}

/// Compares the pack of a run of this home with what the ledger knows of it.
fn look(place: &RunsHome, row: &RunRow) -> Result<PackState, StoreError> {
    let pack = place.home().pack(&row.run_id);
    if is_buried(place.home(), &row.run_id) {
        return Ok(PackState::Removed);
    }
    if !is_pack(&pack) {
        return Ok(PackState::Missing);
    }
    let ledger = match row.of_this_home {
        true => ledger_digest(place.store(), &row.run_id)?,
        false => return Ok(PackState::AsKnown),
    };
    Ok(match ledger {
        Some(ledger) if digest_on_disk(&pack).as_ref() != Some(&ledger) => PackState::Mismatched,
        Some(_) | None => PackState::AsKnown,
    })
}

#[cfg(test)]
mod tests {
    use cto_contract::config::HarnessConfig;

    use super::*;

    fn engines(yaml: &str, env: &[(&str, &str)]) -> EnginesOutput {
        let config = Config {
            dir: "/config".into(),
            harness: HarnessConfig::read(
                "harness.yaml",
                format!("schema: cto.harness/v1\n{yaml}").as_bytes(),
            )
            .unwrap(),
            has_file: true,
            trusted: Vec::new(),
        };
        let env = env.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        list_engines(&config, &Environment::new(env))
    }

    #[test]
    fn only_the_exact_words_open_a_lane_and_its_stage() {
        let codex = |gate: &str, stage: &str| {
            let env = [
                ("CTO_HARNESS_ALLOW_CODEX", gate),
                ("CTO_HARNESS_CODEX_STAGE", stage),
            ];
            let rows = engines("", &env).engines;
            let row = rows.into_iter().find(|r| r.lane == Lane::Codex).unwrap();
            (row.gate_open, row.stage)
        };
        assert_eq!(codex("1", "3"), (true, Some(3)));
        for other in ["", "01", " 1", "true", "yes"] {
            assert_eq!(codex(other, "3"), (false, Some(3)), "{other}");
        }
        for other in ["", "03", " 3", "7", "0", "three"] {
            assert_eq!(codex("1", other), (true, None), "{other}");
        }
    }

    #[test]
    fn fake_is_the_default_whatever_is_set_and_has_no_gate() {
        for row in engines("engines: {fake: {disabled: true}}", &[]).engines {
            let is_fake = row.lane == Lane::Fake;
            assert_eq!(row.default, is_fake);
            assert_eq!(row.gate.is_none(), is_fake);
            assert_eq!(row.gate_open, is_fake);
            assert_eq!(row.disabled, is_fake);
        }
    }

    #[test]
    fn a_bad_case_is_listed_with_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let bad = dir.path().join("my-case");
        std::fs::create_dir(&bad).unwrap();
        std::fs::File::create(bad.join("case.yaml")).unwrap();
        let catalog = Catalog {
            extra: Some(dir.path().to_owned()),
        };
        let cases = list_cases(&catalog).unwrap().cases;
        let (own, shipped): (Vec<_>, Vec<_>) = cases.into_iter().partition(|c| !c.embedded);
        assert!(!shipped.is_empty() && shipped.iter().all(|c| c.problem.is_none()));
        assert_eq!(own.len(), 1);
        assert!(own[0].problem.is_some() && own[0].title.is_none());
    }
}
