//! The lane `case` proven with its double: every check of its adapter, and every fault that its model, its roles and its
//! program can have. Each is one real run through the usual way, judged from its sealed pack.

mod checks;
mod document;
mod faults;
mod judge;
mod login;
mod promised;
mod rows;
mod script;
mod site;

use std::path::{Path, PathBuf};
use std::time::Instant;

use cto_contract::artifact::REPORT_JSON;
use cto_contract::outputs::{
    AdapterCheck, ValidateProviderAdapterOutput, ValidateProviderAdapterTag,
};
use cto_runner::Environment;
use cto_sandbox::{Launcher, StopToken};

pub use checks::ADAPTER_CHECKS;
pub use document::document;
pub use faults::FAULTS;
pub(crate) use rows::{MODEL, PROVIDER};
pub use rows::{Row, Started};

use crate::failures::{ValidateError, make_directory};
use crate::pool::{Ended, work_off};
use site::CaseSite;

/// What to validate, and where.
pub struct Options {
    /// An own directory for this validation is made in here.
    pub directory: PathBuf,
    /// The caller's environment: only its `PATH` is used.
    pub env: Environment,
    pub launcher: Launcher,
    /// This program, which is the double under another name.
    pub program: PathBuf,
    pub jobs: usize,
    /// Names of rows; empty means all.
    pub only: Vec<String>,
}

/// Runs the checks of the adapter side by side. `told` hears of each as it ends.
pub fn validate(
    options: &Options,
    stop: &StopToken,
    told: &mut dyn FnMut(&AdapterCheck),
) -> Result<ValidateProviderAdapterOutput, ValidateError> {
    let rows = choose(&options.only)?;
    let directory = make_directory(&options.directory, "provider-adapter")?;
    site::lay_out_doubles(&rows, &directory, &options.program).map_err(|source| {
        ValidateError::Directory {
            path: directory.join("doubles"),
            source,
        }
    })?;
    let perform = |row: &&'static Row| check(row, &directory, options, stop);
    let done = work_off(&rows, options.jobs, stop, perform, |_, ended| {
        if let Ended::Done(check) = ended {
            told(check);
        }
    });
    let mut output = ValidateProviderAdapterOutput {
        schema_version: ValidateProviderAdapterTag,
        ok: false,
        checked: Vec::new(),
        errors: Vec::new(),
        directory: directory.display().to_string(),
    };
    for (row, ended) in rows.iter().zip(done) {
        match ended {
            Ended::Done(check) => {
                let errors = check.errors.iter();
                let errors = errors.map(|error| format!("{}: {error}", check.check));
                output.errors.extend(errors);
                output.checked.push(check);
            }
            Ended::Panicked(why) => output.errors.push(format!("{}: panicked: {why}", row.name)),
            Ended::NotStarted => output.errors.push(format!("{}: not run", row.name)),
        }
    }
    output.ok = output.errors.is_empty();
    Ok(output)
}

fn choose(only: &[String]) -> Result<Vec<&'static Row>, ValidateError> {
    let all = || ADAPTER_CHECKS.iter().chain(FAULTS);
    if only.is_empty() {
        return Ok(ADAPTER_CHECKS.iter().collect());
    }
    let named = |name: &String| {
        let row = all().find(|row| row.name == name);
        let shown = || cto_contract::text::shorten(name, 60);
        row.ok_or_else(|| ValidateError::UnknownFixture(shown()))
    };
    only.iter().map(named).collect()
}

fn check(row: &Row, directory: &Path, options: &Options, stop: &StopToken) -> AdapterCheck {
    let begun = Instant::now();
    let mut check = AdapterCheck {
        check: row.name.to_owned(),
        passed: false,
        status: None,
        case_process_started: None,
        report: None,
        errors: Vec::new(),
        seconds: 0.0,
    };
    match CaseSite::make(row, directory, options).and_then(|site| site.run(stop)) {
        Ok(seen) => {
            check.report = Some(seen.pack.join(REPORT_JSON).display().to_string());
            match judge::judge(row, &seen) {
                Ok(judged) => {
                    check.status = Some(judged.status);
                    check.case_process_started = Some(judged.process_started);
                    check.errors = judged.errors;
                }
                Err(why) => check.errors.push(why),
            }
        }
        Err(error) => check.errors.push(cto_runner::error_chain(&error)),
    }
    check.passed = check.errors.is_empty();
    check.seconds = crate::seconds(begun);
    check
}

#[cfg(test)]
mod tests;
