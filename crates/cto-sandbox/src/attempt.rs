//! What the recorder of a sandbox has seen. Names, paths and arguments are the observed process's own words: untrusted text,
//! cut to a bound, and never a reason to allow anything.

use serde::{Deserialize, Serialize};

/// Longest target of an attempt, in bytes.
pub const TARGET_BYTES_MAX: usize = 512;
/// Most arguments of an execution that are kept, and the longest of them.
pub const ARGUMENTS_MAX: usize = 16;
pub const ARGUMENT_BYTES_MAX: usize = 256;

/// Whether attempts at what is forbidden are recorded. Needs a [`Root::Built`](crate::Root::Built).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recorder {
    #[default]
    Off,
    On,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptKind {
    /// The supervisor refused it.
    Denied,
    /// It went on to the kernel, which by all that could be seen refuses it; executions go on in any case. What was looked at
    /// may have changed meanwhile, so this is likely and not certain.
    Attempt,
    /// The process was killed for it.
    Killed,
}

impl AttemptKind {
    pub const ALL: &[Self] = &[Self::Denied, Self::Attempt, Self::Killed];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Attempt => "attempt",
            Self::Killed => "killed",
        }
    }
}

/// One thing that was tried, by one kind of process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub kind: AttemptKind,
    /// The name of a refused call, or one of [`Attempt::WORDS`].
    pub what: String,
    pub target: String,
    /// Of an execution only.
    pub argv: Vec<String>,
    /// Name and number, inside, of the process that was seen first.
    pub process: String,
    /// How often so far.
    pub count: u64,
}

impl Attempt {
    /// Every word that [`Attempt::what`] can be where it is not the name of a call.
    pub const WORDS: &[&str] = &[
        "bind",
        "change mode",
        "change owner",
        "change times",
        "connect",
        "exec",
        "foreign call",
        "link",
        "make directory",
        "make node",
        "open for writing",
        "own filter",
        "remove",
        "remove attribute",
        "rename",
        "send",
        "set attribute",
        "signal",
        "symlink",
        "truncate",
    ];
}

/// What the recorder counted in one launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// All that was noted or dropped, each repetition counted.
    pub attempts: u64,
    /// Of these, the ones that had no room and were only counted.
    pub dropped: u64,
    /// Calls that could not be looked at, because the memory or the directory of the process was not readable.
    pub blind: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_words_are_frozen() {
        let kinds: Vec<_> = AttemptKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(kinds.join(" "), "denied attempt killed");
        for kind in AttemptKind::ALL {
            let written = serde_json::to_string(kind).unwrap();
            assert_eq!(written, format!("\"{}\"", kind.as_str()));
        }
        assert_eq!(
            Attempt::WORDS.join(", "),
            "bind, change mode, change owner, change times, connect, exec, foreign call, link, make directory, make node, \
             open for writing, own filter, remove, remove attribute, rename, send, set attribute, signal, symlink, truncate"
        );
    }
}
