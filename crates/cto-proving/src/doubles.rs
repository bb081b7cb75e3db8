//! Conformance doubles: our own small programs that behave as the agents' command lines do, and fail as they are told.
//!
//! A double is the `cto` binary under another file name: `cto-double-<lane>`, or `cto-double-<lane>.<behaviour>` for one
//! that misbehaves. The name is the only thing that reaches it for sure: inside, the environment is built from nothing and
//! no directory beside the program is shown. What it does to the tree comes from its model, as with the real program.

pub mod case;
mod chat;
pub mod streams;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use cto_contract::words::Lane;

const NAME_PREFIX: &str = "cto-double-";

/// How a double was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// How this program was called: it can be called again in the same way.
    pub program: OsString,
    pub lane: Lane,
    /// What is wrong with it; none for one that does what it should.
    pub behaviour: Option<String>,
    /// Its arguments, without its own name.
    pub args: Vec<String>,
}

impl Call {
    /// Reads a command line; none for a program that is no double.
    pub fn read(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter();
        let program = args.next()?;
        let name = Path::new(&program).file_name().and_then(OsStr::to_str)?;
        let name = name.strip_prefix(NAME_PREFIX)?.to_owned();
        let (lane, behaviour) = match name.split_once('.') {
            None => (name.as_str(), None),
            Some((lane, behaviour)) => (lane, Some(behaviour.to_owned())),
        };
        let lane: Lane = lane.parse().ok()?;
        Some(Self {
            program,
            lane,
            behaviour,
            args: args.map(|a| a.to_string_lossy().into_owned()).collect(),
        })
    }
}

/// The file name of a lane's double.
pub fn file_name(lane: Lane, behaviour: Option<&str>) -> String {
    match behaviour {
        None => format!("{NAME_PREFIX}{lane}"),
        Some(behaviour) => format!("{NAME_PREFIX}{lane}.{behaviour}"),
    }
}

/// Runs the double that this process was started as; none if it is no double.
pub fn entry(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let call = Call::read(args)?;
    Some(match call.lane {
        Lane::Case => case::run(&call),
        Lane::Codex | Lane::Pi | Lane::Claude => streams::run(&call),
        Lane::Fake | Lane::Command | Lane::Acp => no_double(call.lane),
    })
}

fn no_double(lane: Lane) -> ExitCode {
    // Whoever can't hear it sees the code.
    writeln!(std::io::stderr(), "there is no double of the lane {lane}").ok();
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Option<Call> {
        Call::read(words.iter().map(OsString::from))
    }

    #[test]
    fn a_double_is_known_by_its_file_name_alone() {
        let call = read(&["/x/cto-double-codex.dies", "exec", "--json"]).unwrap();
        assert_eq!(call.lane, Lane::Codex);
        assert_eq!(call.behaviour.as_deref(), Some("dies"));
        assert_eq!(call.args, ["exec", "--json"]);
        for (lane, behaviour) in [(Lane::Pi, None), (Lane::Case, Some("rejects"))] {
            let call = read(&[&file_name(lane, behaviour)]).unwrap();
            assert_eq!((call.lane, call.behaviour.as_deref()), (lane, behaviour));
        }
        assert!(read(&["/usr/bin/cto", "cto-double-codex"]).is_none());
        assert!(read(&["cto-double-nothing"]).is_none());
        assert!(read(&[]).is_none());
    }
}
