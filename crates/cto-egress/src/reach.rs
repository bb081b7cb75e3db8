//! What in a body would make the upstream itself reach out: tools that it runs, addresses that it fetches.
//!
//! An agent without a network could otherwise have one by way of its model. Tools are looked for at every depth, because a
//! provider takes them in items of the conversation too. What is data to the provider (a schema, the arguments of a call) is
//! not looked at: an honest tool may speak of anything there. The walk keeps nothing of the body.
//!
//! Keys that are refused are refused in every spelling that some server takes for the same; what is data is so by its exact
//! name alone.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::refusal::{Objection, Refusal};

/// Most characters of a tool's name that a record keeps.
const SUBJECT_CHARS_MAX: usize = 60;

/// How the requests of one kind of API are read.
pub(crate) struct Rules {
    /// Kinds of tools whose work is done by whoever asked, that is inside. Any other kind is refused.
    own_tools: &'static [&'static str],
    /// The same by how they begin, where a date follows.
    own_tools_dated: &'static [&'static str],
    /// Kinds that are the asker's own where they say `execution: client`.
    client_tools: &'static [&'static str],
    /// Keys under which a tool may stand without a kind, if it has a name: it is the asker's own then.
    untyped_tools: &'static [&'static str],
    /// Keys of a tool that name a server of its own, or a tool of the provider in the place of a kind.
    server_keys: &'static [&'static str],
    /// Keys of the whole request that bring tools of the provider with them.
    hosted_at_top: &'static [&'static str],
    /// The same wherever they stand.
    hosted: &'static [&'static str],
    /// Keys that hold definitions of tools, wherever they stand.
    tool_lists: &'static [&'static str],
    /// Keys under which a provider takes an address to fetch.
    addresses: &'static [&'static str],
    /// Keys of objects that may hold an address as their `url`.
    sources: &'static [&'static str],
    /// Keys of the whole request that let another model answer.
    other_models_at_top: &'static [&'static str],
    /// Keys of the whole request that are data.
    data_at_top: &'static [&'static str],
    /// Keys of a tool that are data.
    data_of_tool: &'static [&'static str],
    /// Keys of an item of the conversation that are data: the arguments of a call, which are a text or an object. A list there
    /// is none, and is looked at.
    data_of_item: &'static [&'static str],
}

/// What gateways in front of a provider take on every wire.
const GATEWAY_AT_TOP: [&str; 3] = ["extra_body", "extra_headers", "extra_query"];
const GATEWAY_HOSTED: [&str; 6] = [
    "mcp_servers",
    "web_search_options",
    "plugins",
    "search_parameters",
    "enable_search",
    "data_sources",
];
const OTHER_MODELS: &[&str] = &[
    "models",
    "model_list",
    "fallbacks",
    "fallback_models",
    "context_window_fallbacks",
    "content_policy_fallbacks",
    "custom_llm_provider",
    "user_config",
];
const ADDRESSES: &[&str] = &["api_base"];
/// How the key of an address ends, whatever it begins with.
const ADDRESS_ENDS: [&str; 2] = ["url", "uri"];
/// Tools of a provider that have no kind, by their own key.
const UNTYPED_HOSTED: [&str; 6] = [
    "google_search",
    "google_search_retrieval",
    "google_maps",
    "url_context",
    "code_execution",
    "computer_use",
];

const fn joined<const A: usize, const B: usize, const N: usize>(
    first: [&'static str; A],
    second: [&'static str; B],
) -> [&'static str; N] {
    let mut all = [""; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < A { first[at] } else { second[at - A] };
        at += 1;
    }
    all
}

pub(crate) const OPENAI: Rules = Rules {
    own_tools: &[
        "function",
        "custom",
        "local_shell",
        "shell",
        "apply_patch",
        // A group of others, each of which is looked at.
        "namespace",
    ],
    own_tools_dated: &[],
    client_tools: &["tool_search"],
    untyped_tools: &["functions"],
    server_keys: &joined::<3, 6, 9>(
        ["server_url", "server_label", "connector_id"],
        UNTYPED_HOSTED,
    ),
    hosted_at_top: &joined::<2, 3, 5>(["prompt", "web_search"], GATEWAY_AT_TOP),
    hosted: &GATEWAY_HOSTED,
    tool_lists: &["tools", "functions"],
    addresses: ADDRESSES,
    sources: &["source"],
    other_models_at_top: OTHER_MODELS,
    data_at_top: &["metadata", "client_metadata", "response_format", "text"],
    data_of_tool: &["parameters", "input_schema", "output_schema", "format"],
    data_of_item: &["arguments", "input"],
};

pub(crate) const ANTHROPIC: Rules = Rules {
    // A tool without a kind is the asker's own.
    own_tools: &["custom"],
    own_tools_dated: &["bash_", "text_editor_", "memory_"],
    client_tools: &[],
    untyped_tools: &["tools"],
    server_keys: &joined::<1, 6, 7>(["mcp_server_name"], UNTYPED_HOSTED),
    // A container of the provider's, with skills in it.
    hosted_at_top: &joined::<1, 3, 4>(["container"], GATEWAY_AT_TOP),
    hosted: &GATEWAY_HOSTED,
    tool_lists: &["tools"],
    addresses: ADDRESSES,
    sources: &["source"],
    other_models_at_top: OTHER_MODELS,
    data_at_top: &["metadata", "output_config", "output_format"],
    data_of_tool: &["input_schema", "input_examples"],
    data_of_item: &["input"],
};

impl Rules {
    fn is_own(&self, kind: &str) -> bool {
        let dated = |begin: &&str| {
            let rest = kind.strip_prefix(*begin);
            rest.is_some_and(|date| date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()))
        };
        self.own_tools.contains(&kind) || self.own_tools_dated.iter().any(dated)
    }
}

/// A key as the most generous reader takes it. Go does not look at case and folds two letters beyond ASCII; what reads
/// protobuf takes `camelCase` for `snake_case`.
fn folded(key: &str) -> impl Iterator<Item = char> {
    let kept = key
        .chars()
        .filter(|c| !c.is_control() && !c.is_whitespace() && !matches!(c, '_' | '-'));
    kept.flat_map(|c| match c {
        '\u{17f}' => 's'.to_lowercase(),
        other => other.to_lowercase(),
    })
}

/// Whether some reader may take two keys for one.
pub(crate) fn is_same_key(a: &str, b: &str) -> bool {
    folded(a).eq(folded(b))
}

/// Whether the key names an address, by how it ends. `url` alone is often only a citation.
fn ends_as_address(key: &str) -> bool {
    let key: String = folded(key).collect();
    let ends = ADDRESS_ENDS.iter();
    ends.clone().any(|end| key.ends_with(end)) && !ends.clone().any(|end| key == *end)
}

/// Whether a text is an address with a scheme.
fn has_scheme(text: &str) -> bool {
    let scheme = text
        .trim_start()
        .split_once("://")
        .map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-');
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(rest)
    })
}

/// Refuses a body that would do so. Text that is no JSON is refused as such.
pub(crate) fn check(rules: &'static Rules, body: &[u8]) -> Result<(), Objection> {
    let mut found = None;
    let mut reader = serde_json::Deserializer::from_slice(body);
    let walk = Walk {
        rules,
        place: Place::Top,
        key: "",
        tool: &mut Tool::default(),
        found: &mut found,
    };
    let walked = walk.deserialize(&mut reader).and_then(|()| reader.end());
    match (found, walked) {
        (Some(objection), _) => Err(objection),
        (None, Err(_)) => Err(Refusal::BadJson.into()),
        (None, Ok(())) => Ok(()),
    }
}

/// Where in the body a value stands, as far as that matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    /// Anything of the request that has no meaning of its own here.
    Item,
    Tools,
    Tool,
    /// A definition inside a tool, such as `function`.
    Definition,
    ToolKind,
    ToolExecution,
    /// An address, or an object that holds one.
    Address,
    Source,
    Hosted,
    /// Another model than the one that is asked for.
    OtherModel,
    /// The arguments of a call.
    Call,
    /// Nothing below is read as a request.
    Data,
}

/// What was said of the tool that is being looked at. A key may stand twice: every word counts.
#[derive(Default)]
struct Tool {
    says_kind: bool,
    says_name: bool,
    client_kind: Option<String>,
    says_client: bool,
    says_other: bool,
}

impl Tool {
    /// What it is, where it is not surely the asker's own.
    fn hosted_kind(&self) -> Option<&str> {
        let is_own = self.says_client && !self.says_other;
        self.client_kind.as_deref().filter(|_| !is_own)
    }
}

struct Walk<'f> {
    rules: &'static Rules,
    place: Place,
    /// The key that it stands under.
    key: &'f str,
    tool: &'f mut Tool,
    found: &'f mut Option<Objection>,
}

impl Walk<'_> {
    fn at<'w>(&'w mut self, place: Place, key: &'w str) -> Walk<'w> {
        Walk {
            rules: self.rules,
            place,
            key,
            tool: self.tool,
            found: self.found,
        }
    }

    fn object(&mut self, refusal: Refusal, subject: &str) {
        let short: String = subject.chars().take(SUBJECT_CHARS_MAX).collect();
        self.found.get_or_insert(Objection {
            refusal,
            subject: Some(short.escape_debug().to_string()),
            remedy: None,
        });
    }

    /// Something is here that is neither absent nor, so far, refused.
    fn note(&mut self) {
        match self.place {
            Place::Hosted => self.object(Refusal::HostedTool, self.key),
            Place::OtherModel => self.object(Refusal::ModelMismatch, self.key),
            Place::Top
            | Place::Item
            | Place::Tools
            | Place::Tool
            | Place::Definition
            | Place::ToolKind
            | Place::ToolExecution
            | Place::Address
            | Place::Source
            | Place::Call
            | Place::Data => {}
        }
    }

    /// A kind that is no word is none that could be known.
    fn note_no_word(&mut self) {
        self.note();
        if self.place == Place::ToolKind {
            self.object(Refusal::HostedTool, self.key);
        }
    }

    fn below(&self, key: &str) -> Place {
        let rules = self.rules;
        let is_in = |list: &[&str]| list.iter().any(|known| is_same_key(known, key));
        let is_exactly = |list: &[&str]| list.contains(&key);
        match self.place {
            Place::Data | Place::Call => Place::Data,
            Place::Hosted => Place::Hosted,
            Place::OtherModel => Place::OtherModel,
            Place::Top if is_in(rules.hosted_at_top) => Place::Hosted,
            Place::Top if is_in(rules.other_models_at_top) => Place::OtherModel,
            Place::Top if is_exactly(rules.data_at_top) => Place::Data,
            Place::Item if is_exactly(rules.data_of_item) => Place::Call,
            Place::Tool | Place::Definition if is_exactly(rules.data_of_tool) => Place::Data,
            Place::Tool if is_same_key(key, "type") => Place::ToolKind,
            Place::Tool if is_same_key(key, "execution") => Place::ToolExecution,
            Place::Tool if is_in(rules.server_keys) => Place::Hosted,
            Place::Address | Place::Source if is_in(&ADDRESS_ENDS) => Place::Address,
            // The text of a document may begin with an address.
            Place::Address | Place::Source if ["data", "text"].contains(&key) => Place::Data,
            _ if is_in(rules.hosted) => Place::Hosted,
            _ if is_in(rules.tool_lists) => Place::Tools,
            _ if is_in(rules.addresses) || ends_as_address(key) => Place::Address,
            _ if is_in(rules.sources) => Place::Source,
            Place::Tool | Place::Definition => Place::Definition,
            // What lies deeper in an address or a source belongs to it.
            Place::Address | Place::Source => Place::Source,
            Place::Top | Place::Item | Place::Tools | Place::ToolKind | Place::ToolExecution => {
                Place::Item
            }
        }
    }

    /// Looks at one tool as a whole: what it is may depend on a word that stands before or behind.
    fn tool<'de, A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut tool = Tool::default();
        let mut inner = Walk {
            rules: self.rules,
            place: Place::Tool,
            key: self.key,
            tool: &mut tool,
            found: self.found,
        };
        inner.entries(&mut map)?;
        let may_be_untyped = |list: &&str| is_same_key(list, self.key);
        let is_untyped = tool.says_name && self.rules.untyped_tools.iter().any(may_be_untyped);
        if let Some(kind) = tool.hosted_kind() {
            self.object(Refusal::HostedTool, kind);
        } else if !tool.says_kind && !is_untyped {
            self.object(Refusal::HostedTool, "a tool without a type");
        }
        Ok(())
    }

    fn entries<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            let place = self.below(&key);
            self.tool.says_name |= self.place == Place::Tool && key == "name";
            map.next_value_seed(self.at(place, &key))?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.note_no_word();
        match self.place {
            Place::Tools => self.tool(map),
            Place::Top
            | Place::Item
            | Place::Tool
            | Place::Definition
            | Place::ToolKind
            | Place::ToolExecution
            | Place::Address
            | Place::Source
            | Place::Hosted
            | Place::OtherModel
            | Place::Call
            | Place::Data => self.entries(&mut map),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let key = self.key;
        let place = if self.place == Place::Call {
            Place::Item
        } else {
            self.place
        };
        // A list at the very top is no request; an empty list of servers is none.
        while list.next_element_seed(self.at(place, key))?.is_some() {}
        Ok(())
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.note();
        self.tool.says_kind |= self.place == Place::ToolKind;
        match self.place {
            Place::ToolKind if self.rules.client_tools.contains(&text) => {
                self.tool.client_kind = Some(text.to_owned());
            }
            Place::ToolKind if !self.rules.is_own(text) => {
                self.object(Refusal::HostedTool, text);
            }
            Place::ToolExecution if text == "client" => self.tool.says_client = true,
            Place::ToolExecution => self.tool.says_other = true,
            // A tool by its name alone.
            Place::Tools => self.object(Refusal::HostedTool, text),
            Place::Address if !text.starts_with("data:") => {
                self.object(Refusal::RemoteUrl, self.key);
            }
            Place::Source if has_scheme(text) && !self.rules.sources.contains(&self.key) => {
                self.object(Refusal::RemoteUrl, self.key);
            }
            Place::Top
            | Place::Item
            | Place::Tool
            | Place::Definition
            | Place::ToolKind
            | Place::Address
            | Place::Source
            | Place::Hosted
            | Place::OtherModel
            | Place::Call
            | Place::Data => {}
        }
        Ok(())
    }

    fn visit_bool<E: Error>(mut self, is_set: bool) -> Result<(), E> {
        if is_set {
            self.note_no_word();
        }
        Ok(())
    }

    fn visit_i64<E: Error>(mut self, _: i64) -> Result<(), E> {
        self.note_no_word();
        Ok(())
    }

    fn visit_u64<E: Error>(mut self, _: u64) -> Result<(), E> {
        self.note_no_word();
        Ok(())
    }

    fn visit_f64<E: Error>(mut self, _: f64) -> Result<(), E> {
        self.note_no_word();
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
