//! Verification as rules: which runner a command starts, what its output counts, and whether the checks hold.

mod judge;
mod junit;
mod unittest;

pub use judge::{Judgement, Observed, judge, judge_command};
pub use junit::read_junit;
pub use unittest::{CanaryPlan, Unittest, count_unittest};

use cto_contract::verification::TestCounts;

/// A test runner that the harness knows how to count and to plant a canary in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runner {
    Unittest(Unittest),
}

impl Runner {
    /// Recognises the runner that a command line starts; none for anything that is not a plain call of one.
    pub fn recognise(command: &str) -> Option<Self> {
        unittest::recognise(&words(command)?).map(Self::Unittest)
    }

    pub const fn name(&self) -> &'static str {
        match self {
            Self::Unittest(_) => "unittest",
        }
    }

    /// The same call, but telling every test by name.
    pub fn verbose(&self, command: &str) -> String {
        match self {
            Self::Unittest(_) => format!("{command} -v"),
        }
    }

    /// What to plant, and how to call the runner so that it must find it. `token` is random lower-case text.
    pub fn canary(&self, command: &str, token: &str) -> CanaryPlan {
        match self {
            Self::Unittest(call) => call.canary(command, token),
        }
    }

    /// Counts the tests that the output tells of; none when it tells of none.
    pub fn count(&self, output: &str) -> Option<TestCounts> {
        match self {
            Self::Unittest(_) => count_unittest(output),
        }
    }
}

/// Splits a simple command line into words; none when the shell would do more than that.
fn words(command: &str) -> Option<Vec<String>> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut in_word = false;
    let mut quote: Option<char> = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some('"'), '$' | '`' | '\\') => return None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                in_word = true;
            }
            (None, ' ' | '\t') => {
                if in_word {
                    out.push(std::mem::take(&mut word));
                    in_word = false;
                }
            }
            (
                None,
                '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '\\' | '*' | '?' | '[' | '#'
                | '~' | '\n' | '{' | '}' | '!',
            ) => return None,
            (None, c) => {
                word.push(c);
                in_word = true;
            }
        }
    }
    if quote.is_some() {
        return None;
    }
    if in_word {
        out.push(word);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_calls_are_recognised() {
        let seen = |c: &str| Runner::recognise(c).map(|r| r.name());
        assert_eq!(seen("python3 -m unittest -q"), Some("unittest"));
        assert_eq!(
            seen("python3 -B -m unittest tests.test_a"),
            Some("unittest")
        );
        assert_eq!(
            seen("python3 -m unittest discover -s 'my tests'"),
            Some("unittest")
        );
        assert_eq!(seen("python3 -m unittest || true"), None);
        assert_eq!(seen("python3 \"$CTO_ORACLE/check.py\""), None);
        assert_eq!(seen("echo python3 -m unittest"), None);
        assert_eq!(seen("make test"), None);
    }
}
