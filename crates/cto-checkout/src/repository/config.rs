//! Git's configuration format, read as data: nothing is included, expanded or obeyed.

/// One value: `section.key` or `section.subsection.key`, the first and the last part in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: Vec<u8>,
    /// A key without `=` has none and means true.
    pub(crate) value: Option<Vec<u8>>,
}

/// The settings of one file in its order; for a key that is there twice the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    settings: Vec<Setting>,
}

/// The line that is no configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadLine(pub(crate) usize);

impl Config {
    pub(crate) fn parse(text: &[u8]) -> Result<Self, BadLine> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut parser = Parser {
            rest: text,
            line: 1,
            section: None,
        };
        let mut settings = Vec::new();
        while let Some(setting) = parser.next().map_err(|Bad| BadLine(parser.line))? {
            settings.push(setting);
        }
        Ok(Self { settings })
    }

    /// Adds the settings of a file that outranks this one.
    pub(crate) fn extend(&mut self, over: Self) {
        self.settings.extend(over.settings);
    }

    /// Returns the value of a key written in lower case; `None` inside is a key without `=`.
    pub(crate) fn get(&self, key: &str) -> Option<Option<&[u8]>> {
        let found = self.settings.iter().rev();
        let mut found = found.filter(|setting| setting.key == key.as_bytes());
        found.next().map(|setting| setting.value.as_deref())
    }

    /// Returns the value as text, if it is there and is text.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        std::str::from_utf8(self.get(key)??).ok()
    }

    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| match value {
            None => true,
            Some(value) => [&b"true"[..], b"yes", b"on", b"1"]
                .iter()
                .any(|word| value.eq_ignore_ascii_case(word)),
        })
    }

    /// Returns what comes behind `prefix` in every key that starts with it, with its value.
    pub(crate) fn below<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
        self.settings.iter().filter_map(move |setting| {
            let name = setting.key.strip_prefix(prefix.as_bytes())?;
            Some((name, setting.value.as_deref()))
        })
    }
}

struct Bad;

struct Parser<'a> {
    rest: &'a [u8],
    line: usize,
    /// With its dot at the end, as it starts every key.
    section: Option<Vec<u8>>,
}

impl Parser<'_> {
    fn next(&mut self) -> Result<Option<Setting>, Bad> {
        loop {
            match self.take() {
                None => return Ok(None),
                Some(byte) if byte.is_ascii_whitespace() => {}
                Some(b'#' | b';') => self.skip_line(),
                Some(b'[') => self.section = Some(self.section()?),
                Some(byte) if byte.is_ascii_alphabetic() => return self.setting(byte).map(Some),
                Some(_) => return Err(Bad),
            }
        }
    }

    /// A carriage return before a line feed counts as one line feed, as it does for git.
    fn take(&mut self) -> Option<u8> {
        if self.rest.starts_with(b"\r\n") {
            self.rest = &self.rest[1..];
        }
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        if byte == b'\n' {
            self.line += 1;
        }
        Some(byte)
    }

    fn skip_line(&mut self) {
        while self.take().is_some_and(|byte| byte != b'\n') {}
    }

    /// Reads `name]`, `name.sub]` or `name "sub"]`.
    fn section(&mut self) -> Result<Vec<u8>, Bad> {
        let mut name = Vec::new();
        loop {
            match self.take().ok_or(Bad)? {
                b']' if !name.is_empty() => break,
                byte if byte.is_ascii_alphanumeric() || b"-.".contains(&byte) => {
                    name.push(byte.to_ascii_lowercase());
                }
                b' ' | b'\t' if !name.is_empty() => {
                    name.push(b'.');
                    self.subsection(&mut name)?;
                    break;
                }
                _ => return Err(Bad),
            }
        }
        name.push(b'.');
        Ok(name)
    }

    fn subsection(&mut self, name: &mut Vec<u8>) -> Result<(), Bad> {
        loop {
            match self.take().ok_or(Bad)? {
                b' ' | b'\t' => {}
                b'"' => break,
                _ => return Err(Bad),
            }
        }
        loop {
            match self.take().ok_or(Bad)? {
                b'\n' | 0 => return Err(Bad),
                b'"' => break,
                b'\\' => match self.take().ok_or(Bad)? {
                    b'\n' | 0 => return Err(Bad),
                    byte => name.push(byte),
                },
                byte => name.push(byte),
            }
        }
        if self.take() == Some(b']') {
            Ok(())
        } else {
            Err(Bad)
        }
    }

    fn setting(&mut self, first: u8) -> Result<Setting, Bad> {
        let mut key = self.section.clone().ok_or(Bad)?;
        key.push(first.to_ascii_lowercase());
        loop {
            match self.take() {
                Some(byte) if byte.is_ascii_alphanumeric() || byte == b'-' => {
                    key.push(byte.to_ascii_lowercase());
                }
                Some(b' ' | b'\t') => {}
                Some(b'=') => {
                    let value = Some(self.value()?);
                    return Ok(Setting { key, value });
                }
                None | Some(b'\n') => return Ok(Setting { key, value: None }),
                Some(_) => return Err(Bad),
            }
        }
    }

    /// Reads to the end of the line: blanks around the value are dropped unless they are quoted.
    fn value(&mut self) -> Result<Vec<u8>, Bad> {
        let mut value = Vec::new();
        let (mut quoted, mut solid) = (false, 0);
        loop {
            match self.take() {
                None | Some(b'\n') if quoted => return Err(Bad),
                None | Some(b'\n') => break,
                Some(b'#' | b';') if !quoted => {
                    self.skip_line();
                    break;
                }
                Some(b'"') => {
                    quoted = !quoted;
                    solid = value.len();
                    continue;
                }
                Some(b'\\') => {
                    match self.take().ok_or(Bad)? {
                        b'\n' => continue,
                        b'n' => value.push(b'\n'),
                        b't' => value.push(b'\t'),
                        b'b' => value.push(8),
                        byte @ (b'"' | b'\\') => value.push(byte),
                        _ => return Err(Bad),
                    }
                    solid = value.len();
                    continue;
                }
                Some(byte) if byte.is_ascii_whitespace() && !quoted => {
                    if solid > 0 || !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                Some(byte) => value.push(byte),
            }
            solid = value.len();
        }
        value.truncate(solid);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> String {
        match Config::parse(text.as_bytes()) {
            Err(BadLine(line)) => format!("line {line}"),
            Ok(config) => {
                let line = |setting: &Setting| match &setting.value {
                    None => setting.key.escape_ascii().to_string(),
                    Some(value) => {
                        format!("{}={}", setting.key.escape_ascii(), value.escape_ascii())
                    }
                };
                let lines: Vec<String> = config.settings.iter().map(line).collect();
                lines.join("|")
            }
        }
    }

    #[test]
    fn the_format_is_read_as_git_reads_it() {
        for (text, expected) in [
            ("", ""),
            ("[core]\n\tbare = false\n", "core.bare=false"),
            ("[Core]\nBare\n", "core.bare"),
            ("[core] bare = true", "core.bare=true"),
            (
                "[remote \"A b\\\"c\"]\r\n\turl = x\r\n",
                "remote.A b\\\"c.url=x",
            ),
            ("[branch.Main]\nx=1", "branch.main.x=1"),
            ("[a]\nb =  x  y \t # not this\n;c = 1\n", "a.b=x  y"),
            ("[a]\nb = \" x \"#\n", "a.b= x "),
            ("[a]\nb = x\\\ny\\t\\\"\n", "a.b=xy\\t\\\""),
            ("[a]\nb =\n", "a.b="),
            ("[a]\nb = \"\"\n", "a.b="),
            ("[include]\npath = /x\n", "include.path=/x"),
            ("b = 1\n", "line 1"),
            ("[a]\n\nb = \"x\n", "line 4"),
            ("[a]\nb = \\x\n", "line 2"),
            ("[a", "line 1"),
            ("[]\n", "line 1"),
            ("[a \"b]\n", "line 2"),
            ("[a]\nb_c = 1\n", "line 2"),
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_last_of_two_counts_and_words_mean_true() {
        let config = Config::parse(b"[a]\nx = no\nx = Yes\ny\nz = 0\n").unwrap();
        assert!(config.is_true("a.x") && config.is_true("a.y"));
        assert!(!config.is_true("a.z") && !config.is_true("a.w"));
        assert_eq!(config.text("a.z"), Some("0"));
    }

    fn encode(settings: &[Setting]) -> Vec<u8> {
        let mut text = Vec::new();
        for setting in settings {
            let first = setting.key.iter().position(|&byte| byte == b'.').unwrap();
            let last = setting.key.iter().rposition(|&byte| byte == b'.').unwrap();
            text.extend_from_slice(b"[");
            text.extend_from_slice(&setting.key[..first]);
            text.extend_from_slice(b" \"");
            for &byte in &setting.key[first + 1..last] {
                if b"\"\\".contains(&byte) {
                    text.push(b'\\');
                }
                text.push(byte);
            }
            text.extend_from_slice(b"\"]\n");
            text.extend_from_slice(&setting.key[last + 1..]);
            if let Some(value) = &setting.value {
                text.extend_from_slice(b" = \"");
                for &byte in value {
                    match byte {
                        b'\n' => text.extend_from_slice(b"\\n"),
                        b'"' | b'\\' => text.extend([b'\\', byte]),
                        byte => text.push(byte),
                    }
                }
                text.push(b'"');
            }
            text.push(b'\n');
        }
        text
    }

    fn setting() -> impl Strategy<Value = Setting> {
        let bytes = |range| proptest::collection::vec(1_u8.., range);
        (
            "[a-z]{1,5}",
            bytes(0..9),
            "[a-z][a-z0-9-]{0,5}",
            proptest::option::of(bytes(0..9)),
        )
            .prop_map(|(section, subsection, name, value)| {
                let plain = |bytes: Vec<u8>| -> Vec<u8> {
                    bytes.into_iter().filter(|byte| *byte != b'\r').collect()
                };
                let subsection: Vec<u8> = plain(subsection)
                    .into_iter()
                    .filter(|byte| *byte != b'\n')
                    .collect();
                let key = [section.as_bytes(), b".", &subsection, b".", name.as_bytes()].concat();
                let value = value.map(plain);
                Setting { key, value }
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(settings in proptest::collection::vec(setting(), 0..8)) {
            let config = Config::parse(&encode(&settings)).unwrap();
            prop_assert_eq!(config.settings, settings);
        }

        #[test]
        fn any_bytes_can_be_offered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(Config::parse(&bytes));
        }

        #[test]
        fn any_text_of_its_marks_can_be_offered(text in r#"[\[\]a "\\=#;.\n\r\t]{0,60}"#) {
            drop(Config::parse(text.as_bytes()));
        }
    }
}
