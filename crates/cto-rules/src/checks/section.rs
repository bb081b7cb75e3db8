//! How a section of `test.log` ends: written by the harness for each execution, and looked for by whoever verifies.

use cto_contract::verification::CommandResult;

/// How the last line of a section begins, and how it goes on.
const END: &str = "--- ";
const EXIT_CODE: &str = "exit code ";
const SIGNAL: &str = "signal ";
const DID_NOT_RUN: &str = "did not run";

/// The last line of an execution's section.
pub fn end_line(result: &CommandResult) -> String {
    let end = match (result.exit_code, result.signal) {
        (Some(code), _) => format!("{EXIT_CODE}{code}"),
        (None, Some(signal)) => format!("{SIGNAL}{signal}"),
        (None, None) => DID_NOT_RUN.to_owned(),
    };
    let over = if result.timed_out {
        ", over its wall clock"
    } else {
        ""
    };
    let capped = if result.output_capped {
        ", output capped"
    } else {
        ""
    };
    format!("{END}{end}, {:.3} s{over}{capped}", result.seconds)
}

/// Whether a line looks like such an end. What a check prints can look like one too.
pub fn is_end_line(line: &[u8]) -> bool {
    let ends = [EXIT_CODE, SIGNAL, DID_NOT_RUN];
    line.strip_prefix(END.as_bytes())
        .is_some_and(|rest| ends.iter().any(|end| rest.starts_with(end.as_bytes())))
}

/// Whether a log shows the end of each of these executions, in this order. Lines that the checks printed may stand in between.
pub fn shows_ends<'r>(
    lines: &[String],
    executions: impl IntoIterator<Item = &'r CommandResult>,
) -> bool {
    let mut lines = lines.iter();
    executions.into_iter().all(|result| {
        let end = end_line(result);
        lines.any(|line| *line == end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(exit_code: i32, seconds: f64) -> CommandResult {
        CommandResult {
            exit_code: Some(exit_code),
            seconds,
            ..CommandResult::unknown("c")
        }
    }

    #[test]
    fn a_log_shows_every_end_in_its_order_whatever_the_checks_print() {
        let (before, after) = (ended(1, 0.25), ended(0, 1.0));
        let forged = "--- exit code 0, 9.000 s".to_owned();
        let lines = vec![end_line(&before), forged, end_line(&after)];
        assert!(shows_ends(&lines, [&before, &after]));
        assert!(shows_ends(&lines, []));
        assert!(!shows_ends(&lines, [&after, &before]));
        assert!(!shows_ends(&lines[..2], [&before, &after]));
        assert!(!shows_ends(&lines, [&before, &after, &after]));
        assert!(lines.iter().all(|line| is_end_line(line.as_bytes())));
    }

    #[test]
    fn an_end_says_how_it_came() {
        let said = |edit: fn(&mut CommandResult)| {
            let mut result = ended(0, 0.5);
            edit(&mut result);
            end_line(&result)
        };
        assert_eq!(said(|_| {}), "--- exit code 0, 0.500 s");
        assert_eq!(
            said(|r| (r.exit_code, r.signal, r.timed_out) = (None, Some(9), true)),
            "--- signal 9, 0.500 s, over its wall clock"
        );
        assert_eq!(
            said(|r| (r.exit_code, r.output_capped) = (None, true)),
            "--- did not run, 0.500 s, output capped"
        );
        assert!(!is_end_line(b"---- exit code 0"));
    }
}
