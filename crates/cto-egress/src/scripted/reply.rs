//! What a model answers, before it is put into the words of a wire.

use serde_json::Value;

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) model: String,
    pub(crate) content: Content,
    pub(crate) usage: Usage,
    /// How many results of tools the request held: makes ids that differ from answer to answer and not from try to try.
    pub(crate) step: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Speech { text: String, call: Option<Call> },
    Reasoning(String),
    Refusal(String),
}

impl Content {
    /// How long it is.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Speech { text, call } => {
                let call = call.as_ref().map(|call| call.arguments.to_string().len());
                text.len() + call.unwrap_or_default()
            }
            Self::Reasoning(text) | Self::Refusal(text) => text.len(),
        }
    }
}

/// A tool that the agent is to use.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

/// Tokens. Input is everything that was sent, with what was served from a cache in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) cached: u64,
    pub(crate) output: u64,
}

impl Reply {
    pub(crate) fn id(&self, prefix: &str) -> String {
        format!("{prefix}_{:04}", self.step)
    }
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) event: Option<&'static str>,
    pub(crate) data: String,
}

impl Frame {
    /// An event whose name stands in its data too.
    pub(crate) fn typed(event: &'static str, mut data: Value) -> Self {
        if let Some(object) = data.as_object_mut() {
            object.insert("type".to_owned(), event.into());
        }
        Self {
            event: Some(event),
            data: data.to_string(),
        }
    }

    pub(crate) fn plain(data: impl ToString) -> Self {
        Self {
            event: None,
            data: data.to_string(),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let event = self
            .event
            .map_or(String::new(), |event| format!("event: {event}\n"));
        format!("{event}data: {}\n\n", self.data).into_bytes()
    }
}
