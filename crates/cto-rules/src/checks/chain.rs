//! What is started for a command of the contract: the command itself, or each part of a chain of `&&`.
//!
//! A chain tells one exit code for all of its parts. Where each part is a plain call, and one of them of a known runner,
//! each runs by itself and is judged by itself.

use cto_contract::task::VerificationCommand;

use super::Runner;
use super::call::Call;

/// Words that change the shell itself: what follows them must run in the same one.
const OF_THE_SHELL: &[&str] = &[
    ".", "alias", "cd", "eval", "exit", "export", "popd", "pushd", "read", "return", "set",
    "shift", "source", "trap", "ulimit", "umask", "unset", "wait",
];

/// One thing to start.
#[derive(Debug, Clone)]
pub struct Check<'c> {
    pub command: &'c VerificationCommand,
    /// None for the command as a whole.
    pub part: Option<String>,
    pub runner: Option<Runner>,
}

impl<'c> Check<'c> {
    /// What a command starts, in order.
    pub fn all_of(command: &'c VerificationCommand) -> Vec<Self> {
        let is_plain = command.expect.exit == 0 && command.expect.junit.is_none();
        match split(&command.run).filter(|_| is_plain) {
            None => vec![Self {
                command,
                part: None,
                runner: Runner::recognise(&command.run),
            }],
            Some(parts) => parts
                .into_iter()
                .map(|part| Self {
                    command,
                    runner: Runner::recognise(&part),
                    part: Some(part),
                })
                .collect(),
        }
    }

    /// The text of the contract that it runs.
    pub fn text(&self) -> &str {
        self.part.as_deref().unwrap_or(&self.command.run)
    }

    /// What the shell is given: a runner is called so that it tells all of its tests by name.
    pub fn line(&self) -> String {
        let verbose = self.runner.as_ref().map(Runner::verbose);
        verbose.unwrap_or_else(|| self.text().to_owned())
    }

    /// Whether a count of tests is due.
    pub fn counts_tests(&self) -> bool {
        self.runner.is_some() || self.command.expect.junit.is_some()
    }
}

/// The parts of a chain; none where it is no chain, or its parts can't be told apart.
fn split(run: &str) -> Option<Vec<String>> {
    let parts = parts(run);
    let is_plain = |part: &String| {
        Call::read(part).is_some_and(|call| {
            !OF_THE_SHELL.contains(&call.program())
                && part.split_whitespace().next() != Some("exec")
        })
    };
    let is_known = |part: &String| Runner::recognise(part).is_some();
    let fits = parts.len() > 1 && parts.iter().all(is_plain) && parts.iter().any(is_known);
    fits.then_some(parts)
}

/// Splits at every `&&` outside quotes.
fn parts(run: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut quote = None;
    let mut chars = run.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '&') if chars.peek() == Some(&'&') => {
                chars.next();
                out.push(String::new());
                continue;
            }
            (_, _) => {}
        }
        if let Some(last) = out.last_mut() {
            last.push(c);
        }
    }
    out.iter().map(|part| part.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn command(run: &str, more: &str) -> VerificationCommand {
        let text = format!("run: {}\n{more}", serde_json::json!(run));
        cto_contract::document::read("t", text.as_bytes()).unwrap()
    }

    fn shown(run: &str, more: &str) -> String {
        let command = command(run, more);
        let all = Check::all_of(&command);
        let one = |c: &Check<'_>| {
            let runner = c.runner.as_ref().map_or("?", Runner::name);
            format!("{} [{runner}]", c.text())
        };
        all.iter().map(one).collect::<Vec<_>>().join(" + ")
    }

    #[test]
    fn a_chain_of_plain_calls_with_a_runner_is_split() {
        for (run, expected) in [
            (
                "pytest && go test ./...",
                "pytest [pytest] + go test ./... [go test]",
            ),
            (
                "make x && pytest -k 'a && b'",
                "make x [?] + pytest -k 'a && b' [pytest]",
            ),
            ("make a && make b", "make a && make b [?]"),
            ("cd x && pytest", "cd x && pytest [?]"),
            ("export A=b && pytest", "export A=b && pytest [?]"),
            ("A=b && pytest", "A=b && pytest [?]"),
            ("exec pytest && pytest", "exec pytest && pytest [?]"),
            ("pytest || true && pytest", "pytest || true && pytest [?]"),
            ("pytest && pytest; true", "pytest && pytest; true [?]"),
            ("pytest && pytest & true", "pytest && pytest & true [?]"),
            ("pytest && (pytest)", "pytest && (pytest) [?]"),
            ("pytest &&", "pytest && [?]"),
            ("pytest", "pytest [pytest]"),
        ] {
            assert_eq!(shown(run, ""), expected, "{run}");
        }
        let chain = "pytest && go test";
        for more in ["expect: {exit: 1}", "expect: {junit: a.xml}"] {
            assert_eq!(shown(chain, more), format!("{chain} [?]"), "{more}");
        }
    }

    proptest! {
        #[test]
        fn what_is_split_is_all_that_was_there(run in "x(pytest|go test|make|'a && b'|&&|&| |\"x\"|\\|)*") {
            let command = command(&run, "");
            let all = Check::all_of(&command);
            prop_assert!(!all.is_empty());
            if all.len() > 1 {
                let joined: Vec<&str> = all.iter().map(Check::text).collect();
                let plain = |text: &str| text.replace([' ', '\t'], "");
                prop_assert_eq!(plain(&joined.join("&&")), plain(&run));
            }
        }
    }
}
