//! A plain call of one program: split as the shell would, and put together again.

/// Characters that mean nothing to the shell, so that a word of them needs no quotes.
const PLAIN: &str = "_-./:=,+@%^";

/// One program with its arguments, behind prefixes that do not change which program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    /// `A=b`, `env A=b`, `timeout 60`, `exec`, as they stood.
    prefix: Vec<String>,
    program: String,
    pub(super) args: Vec<String>,
}

impl Call {
    /// Reads a command line; none when the shell would do more than start one program.
    pub(super) fn read(command: &str) -> Option<Self> {
        let words = words(command)?;
        let start = prefix_length(&words)?;
        let (program, args) = words.get(start..)?.split_first()?;
        Some(Self {
            prefix: words[..start].to_vec(),
            program: program.clone(),
            args: args.to_vec(),
        })
    }

    /// The name of the program without its directory.
    pub(super) fn program(&self) -> &str {
        self.program.rsplit('/').next().unwrap_or(&self.program)
    }

    /// The program as it stood.
    pub(super) fn program_word(&self) -> &str {
        &self.program
    }

    pub(super) fn is_python(&self) -> bool {
        self.program() == "python"
            || self
                .program()
                .strip_prefix("python3")
                .is_some_and(|v| v.chars().all(|c| c == '.' || c.is_ascii_digit()))
    }

    /// Whether a prefix sets anything in the environment.
    pub(super) fn has_assignments(&self) -> bool {
        self.prefix.iter().any(|w| assignment(w).is_some())
    }

    /// The same program with other arguments.
    pub(super) fn line<S: AsRef<str>>(&self, args: &[S]) -> String {
        let prefix = self.prefix.iter().map(|w| match assignment(w) {
            // A quoted name would be the name of a program.
            Some((name, value)) => format!("{name}={}", quoted(value)),
            None => quoted(w),
        });
        let rest = std::iter::once(quoted(&self.program));
        let args = args.iter().map(|a| quoted(a.as_ref()));
        prefix.chain(rest).chain(args).collect::<Vec<_>>().join(" ")
    }

    /// The arguments of `python -m <module>`, when that is what is called.
    pub(super) fn python_module(&self, module: &str) -> Option<&[String]> {
        let at = self.args.iter().position(|w| w == "-m")?;
        let fits = self.is_python()
            && self.args[..at].iter().all(|w| w.starts_with('-'))
            && self.args.get(at + 1).map(String::as_str) == Some(module);
        fits.then(|| &self.args[at + 2..])
    }

    /// The value that a prefix gives to an environment name.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let mut set = self.prefix.iter().filter_map(|w| assignment(w));
        set.rfind(|(n, _)| *n == name).map(|(_, value)| value)
    }
}

/// How many words stand before the program itself; none when one of them is not understood.
fn prefix_length(words: &[String]) -> Option<usize> {
    let mut at = 0;
    loop {
        match words.get(at)?.as_str() {
            word if assignment(word).is_some() => at += 1,
            "exec" if at == 0 => at += 1,
            "env" => {
                at += 1;
                if words.get(at)?.starts_with('-') {
                    return None;
                }
            }
            "timeout" => {
                at += 1;
                while words.get(at)?.starts_with('-') {
                    at += match words[at].as_str() {
                        "-k" | "-s" => 2,
                        "--foreground" | "--preserve-status" => 1,
                        w if w.starts_with("--kill-after=") || w.starts_with("--signal=") => 1,
                        _ => return None,
                    };
                }
                let number = words[at].trim_end_matches(['s', 'm', 'h', 'd']);
                number.parse::<f64>().ok()?;
                at += 1;
            }
            _ => return Some(at),
        }
    }
}

fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let fits = name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
        && name.starts_with(|c: char| !c.is_ascii_digit());
    fits.then_some((name, value))
}

/// A word as the shell reads it back.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Splits a simple command line into words; none when the shell would do more than that.
pub(super) fn words(command: &str) -> Option<Vec<String>> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut in_word = false;
    let mut quote: Option<char> = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some('"'), '$' | '`' | '\\') => return None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                in_word = true;
            }
            (None, ' ' | '\t') => {
                if in_word {
                    out.push(std::mem::take(&mut word));
                    in_word = false;
                }
            }
            (
                None,
                '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '\\' | '*' | '?' | '[' | '#'
                | '~' | '\n' | '{' | '}' | '!',
            ) => return None,
            (None, c) => {
                word.push(c);
                in_word = true;
            }
        }
    }
    if quote.is_some() {
        return None;
    }
    if in_word {
        out.push(word);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seen(command: &str) -> String {
        Call::read(command).map_or_else(
            || "none".to_owned(),
            |c| format!("{} | {}", c.program(), c.line(&c.args)),
        )
    }

    #[test]
    fn harmless_prefixes_are_kept_and_seen_through() {
        for (command, expected) in [
            ("pytest -q", "pytest | pytest -q"),
            ("A=b C='d e' pytest", "pytest | A=b C='d e' pytest"),
            (
                "env A=b timeout 60 pytest",
                "pytest | env A=b timeout 60 pytest",
            ),
            (
                "timeout -k 5 1.5m x/pytest",
                "pytest | timeout -k 5 1.5m x/pytest",
            ),
            ("exec cargo test", "cargo | exec cargo test"),
            ("env -i pytest", "none"),
            ("timeout --what 5 pytest", "none"),
            ("timeout soon pytest", "none"),
            ("A=b", "none"),
            ("pytest || true", "none"),
            ("cd x && pytest", "none"),
            ("", "none"),
        ] {
            assert_eq!(seen(command), expected, "{command}");
        }
    }

    proptest! {
        #[test]
        fn what_is_put_together_is_split_into_the_same(args in prop::collection::vec("[^']*", 0..5)) {
            let call = Call { prefix: vec!["A=x y".into()], program: "p".into(), args };
            prop_assert_eq!(Call::read(&call.line(&call.args)), Some(call));
        }

        #[test]
        fn reading_never_panics(text in any::<String>()) {
            let _call = Call::read(&text);
        }
    }
}
