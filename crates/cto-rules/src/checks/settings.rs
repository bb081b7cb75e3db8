//! The keys of a TOML or INI file, as far as planting a canary needs them.
//!
//! This is no validator: the runner itself refuses a file that is wrong. What is not understood is absent.

use std::collections::{BTreeMap, BTreeSet};

/// Keys with their section before them: `package.name`.
#[derive(Debug, Default)]
pub(super) struct Settings {
    sections: BTreeSet<String>,
    raw: BTreeMap<String, String>,
}

impl Settings {
    pub(super) fn toml(text: &str) -> Self {
        let mut out = Self::default();
        let mut section = String::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let line = without_comment(line).trim();
            if let Some(name) = line.strip_prefix('[') {
                section = plain_key(name.trim_matches(['[', ']']));
                out.sections.insert(section.clone());
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let mut value = value.trim().to_owned();
            let fence = ["\"\"\"", "'''"].into_iter().find(|f| value.starts_with(f));
            if let Some(fence) = fence {
                while value.matches(fence).count() < 2 {
                    let Some(next) = lines.next() else { break };
                    value.push('\n');
                    value.push_str(next);
                }
            }
            while value.starts_with('[') && !is_closed(&value) {
                let Some(next) = lines.next() else { break };
                value.push(' ');
                value.push_str(without_comment(next));
            }
            out.insert(&section, &plain_key(key), value);
        }
        out
    }

    /// Lines that are indented go on with the value before.
    pub(super) fn ini(text: &str) -> Self {
        let mut out = Self::default();
        let mut section = String::new();
        let mut last = None;
        for line in text.lines() {
            let body = line.trim();
            if body.is_empty() || body.starts_with(['#', ';']) {
                continue;
            }
            if let (true, Some(key)) = (line.starts_with([' ', '\t']), &last) {
                let value: &mut String = out.raw.entry(String::clone(key)).or_default();
                value.push('\n');
                value.push_str(body);
            } else if let Some(name) = body.strip_prefix('[') {
                section = name.trim_end_matches(']').trim().to_owned();
                out.sections.insert(section.clone());
                last = None;
            } else if let Some((key, value)) = body.split_once(['=', ':']) {
                last = Some(out.insert(&section, key.trim(), value.trim().to_owned()));
            }
        }
        out
    }

    fn insert(&mut self, section: &str, key: &str, value: String) -> String {
        let full = if section.is_empty() {
            key.to_owned()
        } else {
            format!("{section}.{key}")
        };
        // `package.name = "x"` at the top is a section as well.
        if let Some((above, _)) = full.rsplit_once('.') {
            self.sections.insert(above.to_owned());
        }
        self.raw.insert(full.clone(), value);
        full
    }

    pub(super) fn has(&self, section: &str) -> bool {
        self.sections.contains(section)
    }

    /// A value as text, without its quotes.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        let value = self.raw.get(key)?.trim();
        for fence in ["\"\"\"", "'''", "\"", "'"] {
            if let Some(inner) = value.strip_prefix(fence) {
                return inner.strip_suffix(fence);
            }
        }
        Some(value)
    }

    /// The strings of a list; none when the value is no list.
    pub(super) fn list(&self, key: &str) -> Option<Vec<String>> {
        let value = self.raw.get(key)?.trim();
        let mut rest = value.strip_prefix('[')?;
        let mut out = Vec::new();
        while let Some(at) = rest.find(['"', '\'']) {
            let quote = &rest[at..=at];
            let inner = &rest[at + 1..];
            let end = inner.find(quote)?;
            out.push(inner[..end].to_owned());
            rest = &inner[end + 1..];
        }
        Some(out)
    }
}

fn plain_key(key: &str) -> String {
    key.trim().replace(['"', '\'', ' '], "")
}

/// A line without the comment at its end.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (i, c) in line.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') => return &line[..i],
            (None, _) => {}
        }
    }
    line
}

/// Whether every bracket that a list opens is closed.
fn is_closed(value: &str) -> bool {
    let mut quote = None;
    let mut depth = 0_i32;
    for c in value.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    depth <= 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_of_a_manifest_are_found() {
        let s = Settings::toml(
            "[package] # x\nname = \"my-crate\" # y\ndescription = \"\"\"\n[lib]\nname = \"no\"\n\"\"\"\nautotests = false\n[workspace]\nmembers = [\n  \"a\", # one\n  'b/*',\n]\n[[test]]\nname = \"t\"\n",
        );
        assert_eq!(s.text("package.name"), Some("my-crate"));
        assert_eq!(s.text("package.autotests"), Some("false"));
        assert_eq!(s.list("workspace.members").unwrap(), ["a", "b/*"]);
        assert!(s.has("test") && !s.has("lib"));
        assert_eq!(s.list("package.name"), None);
    }

    #[test]
    fn an_ini_value_goes_on_where_lines_are_indented() {
        let s =
            Settings::ini("[tool:pytest]\n# x\naddopts = -q\n  -m 'not slow'\n\ntestpaths: a b\n");
        assert_eq!(s.text("tool:pytest.addopts"), Some("-q\n-m 'not slow'"));
        assert_eq!(s.text("tool:pytest.testpaths"), Some("a b"));
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "[\\[\\]\"'=#a\n .é]*|.*") {
            let (a, b) = (Settings::toml(&text), Settings::ini(&text));
            for key in a.raw.keys().chain(b.raw.keys()) {
                let _read = (a.text(key), a.list(key), b.text(key), b.list(key));
            }
        }
    }
}
