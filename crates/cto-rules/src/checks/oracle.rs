//! Which command is an oracle: a program of the oracle's own directory, started by nothing else, so that the code under
//! test runs in another process if it runs at all.
//!
//! Closed on purpose. A line that is not understood may well be a good check; it only does not count as one outside the
//! process.

use cto_contract::verification::CheckRoom;

use super::call::Call;

/// The variable that names the oracle's directory.
const VARIABLE: &str = "CTO_ORACLE";
/// Stands for the directory in a line whose variable was put in: no line of a contract holds it.
const DIRECTORY: char = '\u{1}';
/// What runs the script that is its first word, with the letters of the options that change nothing about that.
const INTERPRETERS: &[(&str, &str)] = &[
    ("sh", "eux"),
    ("dash", "eux"),
    ("bash", "eux"),
    ("node", ""),
    ("nodejs", ""),
    ("perl", ""),
    ("ruby", ""),
];
const PYTHON_OPTIONS: &str = "BEIOPSqsu";

/// What a command has to do with the oracle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OracleUse {
    /// It does not name it.
    Unused,
    /// It names it, but something else runs too or first: a test runner, a list of commands, a program of the tree.
    Named,
    /// It starts a program of the oracle and nothing else.
    Program,
}

impl OracleUse {
    /// Reads a command line.
    pub fn of(command: &str) -> Self {
        let (line, names_it) = with_directory(command);
        match (names_it, line.and_then(|line| Call::read(&line))) {
            (false, _) => Self::Unused,
            (true, Some(call)) if starts_oracle(&call) => Self::Program,
            (true, _) => Self::Named,
        }
    }

    /// Where such a command runs.
    pub const fn room(self) -> CheckRoom {
        match self {
            Self::Program => CheckRoom::Own,
            Self::Unused | Self::Named => CheckRoom::Shared,
        }
    }
}

/// Whether a result of this command, made in this room, comes from outside the process of the code under test.
pub(super) fn is_outside(command: &str, room: CheckRoom) -> bool {
    (OracleUse::of(command), room) == (OracleUse::Program, CheckRoom::Own)
}

/// Puts a mark where the shell would put the directory, and says whether there was such a place; no line when it holds
/// the mark already.
fn with_directory(command: &str) -> (Option<String>, bool) {
    let mut out = String::new();
    let (mut single, mut double) = (false, false);
    let mut names_it = false;
    let mut rest = command;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\'' if !double => single = !single,
            '"' if !single => double = !double,
            '$' if !single => {
                if let Some(after) = after_variable(rest) {
                    names_it = true;
                    out.push(DIRECTORY);
                    rest = after;
                    continue;
                }
            }
            _ => {}
        }
        out.push(c);
    }
    let is_marked = command.contains(DIRECTORY);
    ((!is_marked).then_some(out), names_it)
}

/// What follows the variable's name.
fn after_variable(text: &str) -> Option<&str> {
    if let Some(inside) = text.strip_prefix('{') {
        return inside.strip_prefix(VARIABLE)?.strip_prefix('}');
    }
    let after = text.strip_prefix(VARIABLE)?;
    let goes_on = after.starts_with(|c: char| c == '_' || c.is_ascii_alphanumeric());
    (!goes_on).then_some(after)
}

fn starts_oracle(call: &Call) -> bool {
    // A variable may lead an interpreter into the tree.
    if call.has_assignments() {
        return false;
    }
    if is_oracle_file(call.program_word()) {
        return true;
    }
    let Some(letters) = options_of(call) else {
        return false;
    };
    let is_option = |word: &&String| {
        let group = word.strip_prefix('-').filter(|g| !g.is_empty());
        group.is_some_and(|g| g.chars().all(|c| letters.contains(c)))
    };
    let script = call.args.iter().find(|word| !is_option(word));
    script.is_some_and(|word| is_oracle_file(word))
}

/// The options of an interpreter of the system; none for any other program.
fn options_of(call: &Call) -> Option<&'static str> {
    let word = call.program_word();
    let is_of_system = !word.contains('/')
        || ["/bin/", "/usr/bin/"]
            .iter()
            .any(|dir| word.strip_prefix(dir) == Some(call.program()));
    if !is_of_system {
        return None;
    }
    if call.is_python() {
        return Some(PYTHON_OPTIONS);
    }
    let known = INTERPRETERS
        .iter()
        .find(|(name, _)| *name == call.program());
    known.map(|(_, letters)| *letters)
}

fn is_oracle_file(word: &str) -> bool {
    let below = word.strip_prefix(DIRECTORY);
    below.is_some_and(|path| path.starts_with('/') && !path.split('/').any(|part| part == ".."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_program_of_the_oracle_itself_is_one() {
        use OracleUse::{Named, Program, Unused};
        for (command, expected) in [
            ("python3 -I \"$CTO_ORACLE/check.py\"", Program),
            ("python3 \"${CTO_ORACLE}/check.py\" --all 'x y'", Program),
            ("python3.12 -IB $CTO_ORACLE/check.py", Program),
            ("/usr/bin/python3 -I $CTO_ORACLE/check.py", Program),
            ("timeout 60 sh -eu \"$CTO_ORACLE/check.sh\" .", Program),
            ("\"$CTO_ORACLE/bin/check\" strings.py", Program),
            ("exec node $CTO_ORACLE/check.mjs", Program),
            ("python3 -m unittest -q", Unused),
            ("echo '$CTO_ORACLE'", Unused),
            ("echo $CTO_ORACLES", Unused),
            // The code under test runs in the same process.
            ("pytest \"$CTO_ORACLE/test_hidden.py\"", Named),
            ("python3 -m pytest \"$CTO_ORACLE\"", Named),
            ("python3 -mpytest \"$CTO_ORACLE/test_hidden.py\"", Named),
            ("node --test $CTO_ORACLE/check.mjs", Named),
            ("node --require ./x.js $CTO_ORACLE/check.mjs", Named),
            ("perl -Ilib $CTO_ORACLE/check.pl", Named),
            ("sh -c \"$CTO_ORACLE/check\"", Named),
            // Something of the tree runs before it, in the same room.
            ("make && python3 \"$CTO_ORACLE/check.py\"", Named),
            ("make; \"$CTO_ORACLE/check\"", Named),
            ("make | $CTO_ORACLE/check", Named),
            ("python3 -I \"$CTO_ORACLE/check.py\" || true", Named),
            // A program of the tree, or led into it.
            ("venv/bin/python3 \"$CTO_ORACLE/check.py\"", Named),
            ("./python3 \"$CTO_ORACLE/check.py\"", Named),
            ("PYTHONPATH=. python3 \"$CTO_ORACLE/check.py\"", Named),
            ("env PYTHONPATH=. python3 $CTO_ORACLE/check.py", Named),
            ("python3 tools/run.py \"$CTO_ORACLE/check.py\"", Named),
            ("\"$CTO_ORACLE/../workspace/check\"", Named),
            ("python3 \"$CTO_ORACLE\"x/check.py", Named),
            ("ORACLE=$CTO_ORACLE make check", Named),
        ] {
            assert_eq!(OracleUse::of(command), expected, "{command}");
        }
    }

    #[test]
    fn only_in_a_room_of_its_own_it_verifies() {
        let oracle = "python3 -I \"$CTO_ORACLE/check.py\"";
        assert!(is_outside(oracle, CheckRoom::Own));
        assert!(!is_outside(oracle, CheckRoom::Shared));
        let beside = "make && \"$CTO_ORACLE/check\"";
        assert!(!is_outside(beside, CheckRoom::Own));
        let none = "python3 -m unittest";
        assert!(!is_outside(none, CheckRoom::Own));
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in any::<String>()) {
            let _use = OracleUse::of(&text);
        }

        /// Whatever stands before or behind it in a list of commands, it is no oracle any more.
        #[test]
        fn nothing_runs_beside_an_oracle(other in "[a-z ]{1,9}", sign in "&&|;|\\||\n|&", first in any::<bool>()) {
            let oracle = "python3 -I \"$CTO_ORACLE/check.py\"";
            let line = match first {
                true => format!("{oracle} {sign} {other}"),
                false => format!("{other} {sign} {oracle}"),
            };
            prop_assert_eq!(OracleUse::of(&line), OracleUse::Named);
        }
    }
}
