//! Logs of commands in a pack: one section for each execution.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use cto_contract::artifact::FreshnessSource;

use crate::checks::Execution;
use crate::open_run::{OpenRun, StepError};

/// Writes the executions under what is said of when they ran, and why nothing ran at the end, if so.
pub(crate) fn write_sections(
    run: &mut OpenRun<'_>,
    path: &str,
    parts: &[(&str, &[Execution])],
    not_run: Option<&str>,
) -> Result<(), StepError> {
    let mut log = io::BufWriter::new(run.create_artifact(path)?);
    let written: io::Result<()> = (|| {
        for (when, executions) in parts {
            for execution in *executions {
                section(&mut log, when, execution)?;
            }
        }
        if let Some(why) = not_run {
            writeln!(log, "=== after the change: nothing ran\n{why}")?;
        }
        log.flush()
    })();
    written.map_err(|e| StepError::not_written(path, &e))?;
    run.times.note(path, FreshnessSource::Written);
    Ok(())
}

fn section(log: &mut impl Write, when: &str, execution: &Execution) -> io::Result<()> {
    let r = &execution.result;
    writeln!(log, "=== {when}: $ {}", execution.line)?;
    let length = copy_file(log, &execution.output)?;
    if length > 0 {
        writeln!(log)?;
    }
    let end = match (r.exit_code, r.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "did not run".to_owned(),
    };
    let over = if r.timed_out {
        ", over its wall clock"
    } else {
        ""
    };
    let capped = if r.output_capped {
        ", output capped"
    } else {
        ""
    };
    writeln!(log, "--- {end}, {:.3} s{over}{capped}\n", r.seconds)
}

fn copy_file(out: &mut impl Write, path: &Path) -> io::Result<u64> {
    io::copy(&mut File::open(path)?, out)
}
