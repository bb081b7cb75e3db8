//! What a provider would do by itself, wherever a request asks for it; and honest requests, which pass.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn seen(body: &str) -> String {
    seen_by(&OPENAI, body)
}

fn seen_by(rules: &'static Rules, body: &str) -> String {
    match check(rules, body.as_bytes()) {
        Ok(()) => "ok".to_owned(),
        Err(Objection {
            refusal, subject, ..
        }) => match subject {
            Some(subject) => format!("{} {subject}", refusal.as_str()),
            None => refusal.as_str().to_owned(),
        },
    }
}

#[test]
fn the_upstream_is_no_way_out() {
    let cases = [
        (
            r#"{"tools":[{"type":"mcp","server_url":"https://x"}]}"#,
            "hosted_tool mcp",
        ),
        (
            r#"{"tools":[{"server_url":"https://x","name":"f"}]}"#,
            "hosted_tool server_url",
        ),
        (r#"{"tools":{"type":"mcp"}}"#, "hosted_tool mcp"),
        (r#"{"tools":["web_search"]}"#, "hosted_tool web_search"),
        (
            r#"{"tools":[{"type":"function","ty\u0070e":"mcp"}]}"#,
            "hosted_tool mcp",
        ),
        (
            r#"{"tools":[{"type":"namespace","tools":[{"type":"mcp"}]}]}"#,
            "hosted_tool mcp",
        ),
        // Newer models take their tools as items of the conversation.
        (
            r#"{"input":[{"type":"additional_tools","tools":[{"type":"mcp","server_url":"https://x"}]}]}"#,
            "hosted_tool mcp",
        ),
        (
            r#"{"input":[{"tools":[{"type":"namespace","tools":[{"type":"code_interpreter"}]}],"type":"additional_tools"}]}"#,
            "hosted_tool code_interpreter",
        ),
        (
            r#"{"input":[{"type":"tool_search_output","tools":[{"type":"web_search"}]}]}"#,
            "hosted_tool web_search",
        ),
        (
            r#"{"tools":[{"type":"tool_search"}]}"#,
            "hosted_tool tool_search",
        ),
        (
            r#"{"tools":[{"execution":"server","type":"tool_search"}]}"#,
            "hosted_tool tool_search",
        ),
        (
            r#"{"tools":[{"type":"tool_search","execution":"client","execution":"server"}]}"#,
            "hosted_tool tool_search",
        ),
        (
            r#"{"tools":[{"type":"web_search","execution":"client"}]}"#,
            "hosted_tool web_search",
        ),
        (
            r#"{"mcp_servers":[{"url":"https://x"}]}"#,
            "hosted_tool mcp_servers",
        ),
        (
            r#"{"input":[{"mcp_servers":[{"url":"https://x"}]}]}"#,
            "hosted_tool mcp_servers",
        ),
        (
            r#"{"web_search_options":{}}"#,
            "hosted_tool web_search_options",
        ),
        (r#"{"enable_search":true}"#, "hosted_tool enable_search"),
        (r#"{"plugins":[{"id":"web"}]}"#, "hosted_tool plugins"),
        (r#"{"prompt":{"id":"p"}}"#, "hosted_tool prompt"),
        (
            r#"{"messages":[{"content":[{"image_url":{"url":"http://x"}}]}]}"#,
            "remote_url url",
        ),
        (
            r#"{"messages":[{"content":[{"type":"document","source":{"type":"url","url":"http://x"}}]}]}"#,
            "remote_url url",
        ),
        (
            r#"{"input":[{"content":[{"type":"input_image","image_url":"https://x"}]}]}"#,
            "remote_url image_url",
        ),
        (
            r#"{"input":[{"type":"function_call_output","output":[{"type":"input_file","file_url":"https://x"}]}]}"#,
            "remote_url file_url",
        ),
        ("{", "bad_json"),
        ("{}x", "bad_json"),
    ];
    for (body, expected) in cases {
        assert_eq!(seen(body), expected, "{body}");
    }
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(seen(&deep), "bad_json");
}

/// Spellings and places that some server or gateway takes for the plain ones.
#[test]
fn another_spelling_or_a_gateway_of_the_provider_is_no_way_out_on_any_wire() {
    let cases = [
        // Go overlooks case and folds two letters beyond ASCII; readers of protobuf take both ways to join words.
        (r#"{"Tools":[{"type":"mcp"}]}"#, "hosted_tool mcp"),
        (r#"{"tool\u017f":[{"type":"mcp"}]}"#, "hosted_tool mcp"),
        (
            r#"{"tools":[{"name":"f","TYPE":"web_search"}]}"#,
            "hosted_tool web_search",
        ),
        (
            r#"{"mcpServers":[{"url":"https://x"}]}"#,
            "hosted_tool mcpServers",
        ),
        (
            r#"{"messages":[{"content":[{"imageUrl":{"URL":"https://x"}}]}]}"#,
            "remote_url URL",
        ),
        // Tools that are known by their own key.
        (
            r#"{"tools":[{"google_search":{}}]}"#,
            "hosted_tool google_search",
        ),
        (
            r#"{"tools":[{"type":"custom","name":"f","urlContext":{}}]}"#,
            "hosted_tool urlContext",
        ),
        (
            r#"{"tools":[{"enterprise_lookup":{}}]}"#,
            "hosted_tool a tool without a type",
        ),
        (r#"{"tools":[{"type":7,"name":"f"}]}"#, "hosted_tool type"),
        (
            r#"{"tools":[{"type":{"is":"mcp"},"name":"f"}]}"#,
            "hosted_tool type",
        ),
        // What gateways take beside the provider's own fields.
        (r#"{"plugins":[{"id":"web"}]}"#, "hosted_tool plugins"),
        (
            r#"{"extra_body":{"model":"other"}}"#,
            "hosted_tool extra_body",
        ),
        (r#"{"api_base":"https://x"}"#, "remote_url api_base"),
        (r#"{"baseUrl":"https://x"}"#, "remote_url baseUrl"),
        (
            r#"{"x":{"webhook_url":"https://x"}}"#,
            "remote_url webhook_url",
        ),
        (r#"{"model":"m","models":["n"]}"#, "model_mismatch models"),
        (
            r#"{"model":"m","fallbacks":[{"m":["n"]}]}"#,
            "model_mismatch fallbacks",
        ),
        // A source that is reached otherwise, and a request in the place of arguments.
        (
            r#"{"messages":[{"content":[{"source":{"type":"s3","location":{"at":"s3://b/k"}}}]}]}"#,
            "remote_url at",
        ),
        (
            r#"{"messages":[{"content":[{"source":{"type":"url","uri":"https://x"}}]}]}"#,
            "remote_url uri",
        ),
        (
            r#"{"response":{"input":[{"type":"additional_tools","tools":[{"type":"mcp"}]}]}}"#,
            "hosted_tool mcp",
        ),
    ];
    for (body, expected) in cases {
        for rules in [&OPENAI, &ANTHROPIC] {
            assert_eq!(seen_by(rules, body), expected, "{body}");
        }
    }
    assert_eq!(
        seen(r#"{"tools":[{"name":"f","parameters":{}}]}"#),
        "hosted_tool a tool without a type"
    );
    let honest = [
        json!({"models": [], "fallbacks": null, "base_url": null}),
        json!({"messages": [{"content": [{"source": {"type": "text", "data": "https://x is a text"}}]}]}),
        json!({"messages": [{"content": [{"source": {"type": "content", "content": [{"type": "text", "text": "see https://x"}]}}]}]}),
        json!({"messages": [{"content": [{"type": "search_result", "source": "https://x", "title": "t"}]}]}),
        json!({"messages": [{"content": [{"type": "tool_use", "input": {"url": "https://x", "base_url": "https://x"}}]}]}),
        json!({"input": [{"type": "custom_tool_call", "input": "https://x"}]}),
    ];
    for body in honest {
        for rules in [&OPENAI, &ANTHROPIC] {
            assert_eq!(seen_by(rules, &body.to_string()), "ok", "{body}");
        }
    }
}

#[test]
fn honest_requests_pass_whatever_their_schemas_and_texts_say() {
    let schema = json!({"type": "object", "properties": {
        "mcp_servers": {"type": "array", "default": [{"url": "https://x"}]},
        "tools": {"type": "array", "items": {"type": "web_search"}, "default": [{"type": "mcp"}]},
        "image_url": {"type": "string", "default": "https://x", "image_url": "https://x"},
        "type": {"enum": ["mcp"]},
    }});
    let bodies = [
        json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}),
        json!({"tools": [{"type": "function", "name": "f", "parameters": schema}, {"type": "custom", "format": schema}]}),
        json!({"input": [{"type": "additional_tools", "tools": [{"type": "function", "parameters": schema}]}]}),
        json!({"input": [{"type": "tool_search_output", "tools": [{"type": "function", "parameters": schema}]}]}),
        json!({"tools": [{"type": "tool_search", "execution": "client", "parameters": schema}]}),
        json!({"functions": [{"name": "f", "parameters": schema}]}),
        json!({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}),
        json!({"text": {"format": {"type": "json_schema", "schema": schema}}}),
        json!({"metadata": {"mcp_servers": "none", "image_url": "https://x"}}),
        json!({"input": [{"type": "tool_search_call", "arguments": {"tools": ["mcp"], "mcp_servers": ["x"]}}]}),
        json!({"messages": [{"content": [{"type": "tool_use", "input": {"tools": [{"type": "mcp"}], "image_url": "https://x"}}]}]}),
        json!({"messages": [{"content": "see {\"tools\":[{\"type\":\"mcp\"}],\"image_url\":\"http://x\"}"}]}),
        json!({"input": [{"role": "assistant", "content": [{"type": "output_text", "text": "web_search", "annotations": [{"type": "url_citation", "url": "https://x"}]}]}]}),
        json!({"messages": [{"content": [{"image_url": {"url": "data:image/png;base64,AA"}}]}]}),
        json!({"tools": [], "plugins": [], "mcp_servers": [], "web_search_options": null, "enable_search": false}),
        json!({"tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}]}}),
    ];
    for body in bodies {
        assert_eq!(seen(&body.to_string()), "ok", "{body}");
    }
}

#[test]
fn the_messages_of_another_wire_are_no_way_out_either() {
    let cases = [
        (
            r#"{"tools":[{"type":"web_search_20250305","name":"web_search"}]}"#,
            "hosted_tool web_search_20250305",
        ),
        (
            r#"{"tools":[{"type":"custom","name":"f"},{"name":"c","type":"code_execution_20250825"}]}"#,
            "hosted_tool code_execution_20250825",
        ),
        (
            r#"{"tools":[{"type":"computer_20250124","name":"computer"}]}"#,
            "hosted_tool computer_20250124",
        ),
        (
            r#"{"tools":[{"type":"web_fetch_20250910"}]}"#,
            "hosted_tool web_fetch_20250910",
        ),
        (
            r#"{"tools":[{"type":"mcp_toolset","mcp_server_name":"x"}]}"#,
            "hosted_tool mcp_toolset",
        ),
        (
            r#"{"tools":[{"type":"bash_x","name":"bash"}]}"#,
            "hosted_tool bash_x",
        ),
        (
            r#"{"mcp_servers":[{"type":"url","url":"https://x"}]}"#,
            "hosted_tool mcp_servers",
        ),
        (
            r#"{"container":{"skills":[{"type":"anthropic"}]}}"#,
            "hosted_tool container",
        ),
        (
            r#"{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://x"}}]}]}"#,
            "remote_url url",
        ),
        (
            r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"document","source":{"url":"https://x","type":"url"}}]}]}]}"#,
            "remote_url url",
        ),
        (
            r#"{"system":[{"type":"text","text":"x","tools":[{"type":"web_search_20250305"}]}]}"#,
            "hosted_tool web_search_20250305",
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(seen_by(&ANTHROPIC, body), expected, "{body}");
    }
    let schema = json!({"type": "object", "properties": {"mcp_servers": {"default": [{"url": "https://x"}]}}});
    let honest = [
        json!({"tools": [{"name": "f", "input_schema": schema}, {"type": "custom", "name": "g"}]}),
        json!({"tools": [{"type": "bash_20250124", "name": "bash"}, {"type": "text_editor_20250728"}, {"type": "memory_20250818"}]}),
        json!({"messages": [{"content": [{"type": "tool_use", "input": {"tools": [{"type": "mcp"}], "source": {"url": "https://x"}}}]}]}),
        json!({"messages": [{"content": [{"type": "image", "source": {"type": "base64", "data": "AA"}}]}]}),
        json!({"metadata": {"user_id": "x"}, "mcp_servers": [], "container": null}),
        json!({"messages": [{"content": "see https://x with web_search_20250305"}]}),
    ];
    for body in honest {
        assert_eq!(seen_by(&ANTHROPIC, &body.to_string()), "ok", "{body}");
    }
}

/// A tool of the provider's, or what brings one along.
fn hosted() -> impl Strategy<Value = Value> {
    let kinds = [
        "mcp",
        "web_search",
        "web_search_preview_2025_03_11",
        "code_interpreter",
        "file_search",
        "image_generation",
        "computer_use_preview",
        "tool_search",
        "browser",
    ];
    let kind = proptest::sample::select(kinds.to_vec());
    (kind, any::<bool>()).prop_map(|(kind, first)| match first {
        true => json!({"type": kind, "name": "n"}),
        false => json!({"name": "n", "type": kind, "parameters": {}}),
    })
}

/// Honest neighbours, so that it may stand anywhere in a list.
fn among(tool: Value, before: usize, after: usize) -> Value {
    let plain = json!({"type": "function", "name": "f", "parameters": {"type": "object"}});
    let before = std::iter::repeat_n(plain.clone(), before);
    before
        .chain([tool])
        .chain(std::iter::repeat_n(plain, after))
        .collect()
}

proptest! {
    #[test]
    fn a_tool_of_the_provider_is_refused_at_every_depth_and_place(
        tool in hosted(),
        groups in proptest::collection::vec((0usize..3, 0usize..3), 1..6),
        (place, items) in (0usize..4, 0usize..3),
        carrier in "[a-z_]{1,12}",
    ) {
        let mut list = None;
        for (before, after) in groups {
            let inner = match list {
                None => tool.clone(),
                Some(tools) => json!({"type": "namespace", "name": "g", "tools": tools}),
            };
            list = Some(among(inner, before, after));
        }
        let text = json!({"type": "message", "content": "hello"});
        let item = |kind: &str| {
            let mut input = vec![text.clone(); items];
            input.push(json!({"type": kind, "tools": list}));
            json!({"model": "m", "input": input})
        };
        let body = match place {
            0 => json!({"model": "m", "tools": list}),
            1 => item("additional_tools"),
            2 => item("tool_search_output"),
            // An item of a kind that nobody knows yet.
            _ => item(&carrier),
        };
        let said = seen(&body.to_string());
        let kind = tool["type"].as_str().unwrap();
        prop_assert_eq!(said, format!("hosted_tool {kind}"));
    }

    #[test]
    fn no_spelling_of_a_refused_key_passes(
        word in proptest::sample::select(vec!["tools", "mcp_servers", "plugins", "image_url", "extra_body", "fallbacks"]),
        upper in proptest::collection::vec(any::<bool>(), 16),
        joint in proptest::sample::select(vec!["_", "-", "", "__"]),
    ) {
        let spelt: String = word
            .replace('_', joint)
            .chars()
            .zip(upper.iter().cycle())
            .map(|(c, up)| if *up { c.to_ascii_uppercase() } else { c })
            .collect();
        let body = json!({spelt: [{"type": "mcp", "url": "https://x"}]}).to_string();
        for rules in [&OPENAI, &ANTHROPIC] {
            prop_assert_ne!(seen_by(rules, &body), "ok", "{}", body);
        }
    }

    #[test]
    fn no_text_and_no_schema_is_refused(text in ".{0,40}", key in "(tools|mcp_servers|image_url|type|plugins|[a-z]{1,8})") {
        let mut schema = serde_json::Map::new();
        schema.insert(key, json!([{"type": text, "url": text, "tools": [{"type": text}]}]));
        let body = json!({
            "instructions": text,
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": text}]},
                {"type": "function_call", "name": text, "arguments": text},
                {"type": "function_call_output", "output": text},
            ],
            "tools": [{"type": "function", "name": "f", "description": text, "parameters": schema}],
        });
        prop_assert_eq!(seen(&body.to_string()), "ok");
    }
}
