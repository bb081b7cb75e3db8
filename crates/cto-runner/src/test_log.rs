//! Logs of commands in a pack: one section for each execution, written here and read here.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::path::Path;

use cto_contract::artifact::{FreshnessSource, TEST_LOG};
use cto_contract::text::shorten;
use cto_rules::checks::{end_line, is_end_line};
use cto_rules::views::explain::Printed;

use crate::checks::Execution;
use crate::open_run::{OpenRun, StepError};
use crate::pack_file;
use crate::provenance::OpenedPack;

/// When a check ran that judges the change.
pub(crate) const BEFORE: &str = "before the change";
pub(crate) const AFTER: &str = "after the change";

/// Lines of a check's output that are shown.
const SHOWN_LINES_MAX: usize = 20;
const SHOWN_CHARS_MAX: usize = 200;
/// Longest line of a log that is held.
const LINE_BYTES_MAX: u64 = 64 << 10;

fn headline(when: &str, command: &str) -> String {
    format!("=== {when}: $ {command}")
}

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
            writeln!(log, "=== {AFTER}: nothing ran\n{why}")?;
        }
        log.flush()
    })();
    written.map_err(|e| StepError::not_written(path, &e))?;
    run.times.note(path, FreshnessSource::Written);
    Ok(())
}

fn section(log: &mut impl Write, when: &str, execution: &Execution) -> io::Result<()> {
    writeln!(log, "{}", headline(when, &execution.line))?;
    let length = copy_file(log, &execution.output)?;
    if length > 0 {
        writeln!(log)?;
    }
    writeln!(log, "{}\n", end_line(&execution.result))
}

/// The first lines that a check printed after the change. A log that is withheld or can't be read has none: the reason that
/// the harness gives stands in the report.
pub(crate) fn printed(pack: &OpenedPack, command: &str) -> Printed {
    match pack_file::read(pack, TEST_LOG) {
        Ok(Some(log)) => first_lines(log.as_slice(), command),
        Ok(None) | Err(_) => Printed::default(),
    }
}

fn first_lines(log: impl Read, command: &str) -> Printed {
    let headline = headline(AFTER, command);
    let mut lines = Lines(BufReader::new(log));
    let mut printed = Printed::default();
    if !lines.pass(&headline) {
        return printed;
    }
    for line in lines {
        // What the check prints could look like the end too: then less of it is shown here, and all of it is in the log.
        if is_end_line(line.as_bytes()) {
            break;
        }
        if printed.lines.len() == SHOWN_LINES_MAX {
            printed.is_cut = true;
            break;
        }
        printed.lines.push(shorten(&line, SHOWN_CHARS_MAX));
    }
    printed
}

/// Lines of a log, of which no more is held than a person is shown of one.
struct Lines<R>(BufReader<R>);

impl<R: Read> Lines<R> {
    /// Goes behind a headline, which is as long as its command; false when there is none.
    fn pass(&mut self, headline: &str) -> bool {
        let first = headline.lines().next().unwrap_or_default();
        let further = headline.lines().skip(1).count();
        self.by_ref().any(|line| line == first) && (0..further).all(|_| self.next().is_some())
    }
}

impl<R: Read> Iterator for Lines<R> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let read = (&mut self.0)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line);
        if read.ok()? == 0 {
            return None;
        }
        if line.last() != Some(&b'\n') {
            // The rest of a line that is too long to be held.
            self.0.skip_until(b'\n').ok()?;
        }
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }
}

fn copy_file(out: &mut impl Write, path: &Path) -> io::Result<u64> {
    io::copy(&mut File::open(path)?, out)
}

#[cfg(test)]
mod tests {
    use cto_contract::verification::CommandResult;

    use super::*;

    /// A log with one section for each command and output, after the change.
    fn log(sections: &[(&str, &str)]) -> Vec<u8> {
        let mut log = Vec::new();
        for (command, output) in sections {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(output.as_bytes()).unwrap();
            let execution = Execution {
                result: CommandResult {
                    exit_code: Some(1),
                    seconds: 1.0,
                    ..CommandResult::unknown(command)
                },
                line: (*command).to_owned(),
                output: file.path().to_owned(),
                limit: None,
                attempts: Vec::new(),
                own: None,
            };
            section(&mut log, AFTER, &execution).unwrap();
        }
        log
    }

    fn shown(log: &[u8], command: &str) -> (Vec<String>, bool) {
        let printed = first_lines(log, command);
        (printed.lines, printed.is_cut)
    }

    #[test]
    fn a_check_is_found_by_its_command_and_its_output_ends_with_its_section() {
        let log = log(&[
            ("make a", "one\n\ntwo"),
            ("make b\nmake c", "three"),
            ("d", ""),
        ]);
        let lines = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        assert_eq!(shown(&log, "make a"), (lines(&["one", "", "two"]), false));
        assert_eq!(shown(&log, "make b\nmake c"), (lines(&["three"]), false));
        assert_eq!(shown(&log, "d"), (lines(&[]), false));
        assert_eq!(shown(&log, "make"), (lines(&[]), false));
    }

    #[test]
    fn a_long_output_is_cut_and_a_long_line_is_not_held() {
        let many: String = (1..=25).map(|n| format!("line {n}\n")).collect();
        let (lines, is_cut) = shown(&log(&[("a", &many)]), "a");
        assert_eq!((lines.len(), is_cut), (SHOWN_LINES_MAX, true));
        assert_eq!(lines[19], "line 20");
        let long = format!("{}\nnext", "x".repeat(1 << 20));
        let (lines, is_cut) = shown(&log(&[("a", &long)]), "a");
        assert_eq!((lines.len(), is_cut), (2, false));
        assert!(lines[0].chars().count() <= SHOWN_CHARS_MAX + 1);
        assert_eq!(lines[1], "next");
    }
}
