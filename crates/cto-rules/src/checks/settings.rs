//! The keys of a TOML or INI file, as far as planting a canary needs them.
//!
//! This is no validator: the runner itself refuses a file that is wrong. What is not understood is absent.

use std::collections::BTreeMap;

use toml::{Table, Value};

/// Values in their sections. A key is given with the section before it: `package.name`.
#[derive(Debug, Default)]
pub(super) struct Settings(Table);

impl Settings {
    pub(super) fn toml(text: &str) -> Self {
        Self(text.parse().unwrap_or_default())
    }

    /// Lines that are indented go on with the value before.
    pub(super) fn ini(text: &str) -> Self {
        let mut sections: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
        let mut section = "";
        let mut last = None;
        for line in text.lines() {
            let body = line.trim();
            if body.is_empty() || body.starts_with(['#', ';']) {
                continue;
            }
            let values = sections.entry(section).or_default();
            if let (true, Some(key)) = (line.starts_with([' ', '\t']), last) {
                let value = values.entry(key).or_default();
                value.push('\n');
                value.push_str(body);
            } else if let Some(name) = body.strip_prefix('[') {
                section = name.trim_end_matches(']').trim();
                sections.entry(section).or_default();
                last = None;
            } else if let Some((key, value)) = body.split_once(['=', ':']) {
                values.insert(key.trim(), value.trim().to_owned());
                last = Some(key.trim());
            }
        }
        let tables = sections.into_iter();
        Self(
            tables
                .map(|(name, values)| (name.to_owned(), Value::from(values)))
                .collect(),
        )
    }

    /// Whether there is a section, or a list of them, of this name.
    pub(super) fn has(&self, section: &str) -> bool {
        let found = self.get(section);
        found.is_some_and(|v| v.is_table() || v.is_array())
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key)?.as_bool()
    }

    /// The strings of a list; none when the value is no list.
    pub(super) fn list(&self, key: &str) -> Option<Vec<&str>> {
        let items = self.get(key)?.as_array()?.iter();
        Some(items.filter_map(Value::as_str).collect())
    }

    fn get(&self, key: &str) -> Option<&Value> {
        let mut parts = key.split('.');
        let first = self.0.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.as_table()?.get(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_of_a_manifest_are_found() {
        let s = Settings::toml(
            "[package] # x\nname = \"my\\u002dcrate\" # y\ndescription = \"\"\"\n[lib]\nname = \"no\"\n\"\"\"\nautotests = false\n[workspace]\nmembers = [\n  \"a\", # one\n  'b/*',\n]\n[[test]]\nname = \"t\"\n",
        );
        assert_eq!(s.text("package.name"), Some("my-crate"));
        assert_eq!(s.flag("package.autotests"), Some(false));
        assert_eq!(s.list("workspace.members").unwrap(), ["a", "b/*"]);
        assert!(s.has("test") && !s.has("lib") && !s.has("package.name"));
        assert_eq!(s.list("package.name"), None);
    }

    #[test]
    fn a_section_is_one_however_it_is_written() {
        for text in [
            "[lib]\nname = 'x'",
            "lib.name = 'x'",
            "lib = { name = 'x' }",
            "[\"lib\"]\n\"name\" = 'x'",
        ] {
            let s = Settings::toml(text);
            assert!(s.has("lib"), "{text}");
            assert_eq!(s.text("lib.name"), Some("x"), "{text}");
        }
    }

    #[test]
    fn a_file_that_is_no_toml_holds_nothing() {
        let deep = format!("[lib]\na = {}", "[".repeat(100_000));
        for text in ["[lib]\nname = 'x'\nname = 'y'", "[lib]\nname = x", &deep] {
            assert!(!Settings::toml(text).has("lib"), "{text:.40}");
        }
    }

    #[test]
    fn an_ini_value_goes_on_where_lines_are_indented() {
        let s =
            Settings::ini("[tool:pytest]\n# x\naddopts = -q\n  -m 'not slow'\n\ntestpaths: a b\n");
        assert_eq!(s.text("tool:pytest.addopts"), Some("-q\n-m 'not slow'"));
        assert_eq!(s.text("tool:pytest.testpaths"), Some("a b"));
        assert!(Settings::ini("[pytest]").has("pytest"));
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "[\\[\\]{}\"'=#a\n .é]*|.*") {
            for s in [Settings::toml(&text), Settings::ini(&text)] {
                for key in ["a", "a.a", "é.a", "", "."] {
                    let _read = (s.has(key), s.text(key), s.flag(key), s.list(key));
                }
            }
        }

        #[test]
        fn any_string_comes_back_as_it_was_written(
            name in "[^\\x7f]*",
            members in proptest::collection::vec("[^\\x7f]*", 0..5),
        ) {
            // But for one control character, a string of JSON is a string of TOML.
            let (shown, list) = (serde_json::json!(name), serde_json::json!(members));
            let s = Settings::toml(&format!("[package]\nname = {shown}\n[workspace]\nmembers = {list}\n"));
            prop_assert_eq!(s.text("package.name"), Some(name.as_str()));
            prop_assert_eq!(s.list("workspace.members").unwrap(), members);
        }
    }
}
