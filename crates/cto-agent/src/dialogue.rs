//! What passes between a lane and its program while it runs: bytes in, acts out. No I/O and no clock of its own.

use std::time::Duration;

use cto_contract::event::{AgentWords, BackendActivity, EventFileFault, PipelineWords};

/// What a dialogue wants done. Acts are carried out in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Bytes for the program's stdin.
    Tell(Vec<u8>),
    /// Nothing more will be told.
    CloseStdin,
    /// Something for the log.
    Note(Note),
    /// The program says that it has finished: whatever is left of it may be ended.
    Finished,
}

/// What a dialogue may put into the log. Closed: a lane records nothing about itself that could count for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// What the program is about to do, in its own words.
    Plan(String),
    /// What it does now: for a person who watches.
    Activity(BackendActivity),
}

/// The last word of a model to whoever asked it, between the marks that the plan names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelAnswer {
    /// Which of the plan's askers asked.
    pub asker: Option<String>,
    pub text: String,
}

/// One conversation with one process.
///
/// It is opened once, hears what the process prints in chunks of any size, is told the time now and then, and is closed
/// once, whatever became of the process. Whoever prints is not trusted: no input may make it panic or grow without bound.
pub trait Dialogue: Send {
    /// The process starts.
    fn open(&mut self) -> Vec<Act> {
        Vec::new()
    }

    /// It printed something on stdout, with secrets taken out.
    fn hear(&mut self, bytes: &[u8]) -> Vec<Act>;

    /// The file that it writes about itself has grown by these bytes, with secrets taken out.
    fn read(&mut self, bytes: &[u8]) -> Vec<Act> {
        let _ = bytes;
        Vec::new()
    }

    /// The file that it writes about itself is not what it should be.
    fn distrust(&mut self, fault: EventFileFault) {
        let _ = fault;
    }

    /// Its model said this in the end, as it passed the forwarder, with secrets taken out. Told after the process has ended.
    fn overhear(&mut self, answer: &ModelAnswer) {
        let _ = answer;
    }

    /// So much time has passed since the start.
    fn tick(&mut self, since_start: Duration) -> Vec<Act> {
        let _ = since_start;
        Vec::new()
    }

    /// Whether it may be ended when it lingers after its work is committed.
    fn may_be_ended(&self) -> bool {
        true
    }

    /// The process has ended. Acts that would need it are dropped by now.
    fn finish(self: Box<Self>) -> Ending;
}

/// What is left when a dialogue ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ending {
    pub notes: Vec<Note>,
    /// What the program said of itself; none for one that has no such words.
    pub words: Option<AgentWords>,
    /// What it wrote about phases of its own.
    pub pipeline: Option<PipelineWords>,
}

/// For a program that is not listened to.
#[derive(Debug, Default)]
pub struct Silent;

impl Dialogue for Silent {
    fn hear(&mut self, _: &[u8]) -> Vec<Act> {
        Vec::new()
    }

    fn finish(self: Box<Self>) -> Ending {
        Ending::default()
    }
}
