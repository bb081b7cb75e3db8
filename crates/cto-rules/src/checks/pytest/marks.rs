//! The marks that a test needs so that `pytest -m EXPRESSION` selects it.
//!
//! Naming a mark of our own in the expression instead would break projects with `--strict-markers`.

use std::collections::BTreeSet;

/// More names than this are not tried.
const NAMES_MAX: usize = 8;
/// How deep parentheses and negations may nest.
const DEPTH_MAX: u32 = 50;
/// Marks with a meaning of their own: a test with one of them does not simply run.
const BUILT_IN: &[&str] = &[
    "filterwarnings",
    "parametrize",
    "skip",
    "skipif",
    "usefixtures",
    "xfail",
];

/// The smallest choice of marks that the expression takes; none when there is none or it is not understood.
pub(super) fn selecting(expression: &str) -> Option<Vec<&str>> {
    let tokens = tokens(expression)?;
    let names: Vec<&str> = tokens
        .iter()
        .copied()
        .filter(|t| !["(", ")", "and", "or", "not"].contains(t))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    if names.len() > NAMES_MAX {
        return None;
    }
    let mut choices: Vec<Vec<&str>> = (0_u32..1 << names.len())
        .map(|bits| {
            let chosen = names.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
            chosen.map(|(_, name)| *name).collect()
        })
        .collect();
    choices.sort_by_key(Vec::len);
    choices.into_iter().find(|marks| {
        let mut reader = Reader {
            tokens: &tokens,
            marks,
        };
        let is_plain = marks.iter().all(|m| {
            !BUILT_IN.contains(m)
                && m.chars().all(|c| c == '_' || c.is_alphanumeric())
                && !m.starts_with(|c: char| c.is_numeric())
        });
        is_plain && reader.either(0) == Some(true) && reader.tokens.is_empty()
    })
}

fn tokens(expression: &str) -> Option<Vec<&str>> {
    let mut out = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(c) = rest.chars().next() {
        let length = if "()".contains(c) {
            1
        } else {
            let is_name = |c: char| c == '_' || c.is_alphanumeric() || ":+-.[]\\/".contains(c);
            rest.find(|c: char| !is_name(c)).unwrap_or(rest.len())
        };
        if length == 0 {
            return None;
        }
        out.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    Some(out)
}

struct Reader<'a> {
    tokens: &'a [&'a str],
    marks: &'a [&'a str],
}

impl Reader<'_> {
    fn take(&mut self, token: &str) -> bool {
        let found = self.tokens.first() == Some(&token);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    fn either(&mut self, depth: u32) -> Option<bool> {
        let mut value = self.both(depth)?;
        while self.take("or") {
            value |= self.both(depth)?;
        }
        Some(value)
    }

    fn both(&mut self, depth: u32) -> Option<bool> {
        let mut value = self.one(depth)?;
        while self.take("and") {
            value &= self.one(depth)?;
        }
        Some(value)
    }

    fn one(&mut self, depth: u32) -> Option<bool> {
        if depth > DEPTH_MAX {
            return None;
        }
        if self.take("not") {
            return Some(!self.one(depth + 1)?);
        }
        if self.take("(") {
            let value = self.either(depth + 1)?;
            return self.take(")").then_some(value);
        }
        let (name, rest) = self.tokens.split_first()?;
        if ["and", "or", ")"].contains(name) {
            return None;
        }
        self.tokens = rest;
        Some(self.marks.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_fewest_marks_that_are_selected() {
        for (expression, marks) in [
            ("not slow", Some(vec![])),
            ("fast", Some(vec!["fast"])),
            ("not slow and (unit or fast)", Some(vec!["fast"])),
            ("a and b or c", Some(vec!["c"])),
            ("a and not a", None),
            ("skip", None),
            ("mark(x=1)", None),
            ("a and", None),
            ("a b", None),
        ] {
            assert_eq!(selecting(expression), marks, "{expression}");
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "([()a-c ]|and |or |not )*|.*") {
            let _marks = selecting(&text);
        }
    }
}
