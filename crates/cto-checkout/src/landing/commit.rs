//! The text of a commit: who, when and what, written as git writes it.

use crate::oid::{Oid, TreeId};

/// Longest name or address.
const PERSON_BYTES_MAX: usize = 200;

/// Somebody who stands in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    name: String,
    email: String,
}

/// A name or an address that git would read as something else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is empty, too long, or holds an angle bracket or a control character")]
pub struct PersonError {
    shown: String,
}

impl Person {
    pub fn new(name: &str, email: &str) -> Result<Self, PersonError> {
        for part in [name, email] {
            let is_plain = !part.trim().is_empty()
                && part.trim() == part
                && part.len() <= PERSON_BYTES_MAX
                && !part.chars().any(|c| c.is_control() || "<>".contains(c));
            if !is_plain {
                let shown = crate::TreePath::from(part).to_string();
                return Err(PersonError { shown });
            }
        }
        Ok(Self {
            name: name.to_owned(),
            email: email.to_owned(),
        })
    }
}

/// All of a commit but its tree and its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitText {
    pub author: Person,
    pub committer: Person,
    /// Seconds since 1970, UTC.
    pub at: i64,
    /// With its trailers; a NUL in it ends the message.
    pub message: String,
}

impl CommitText {
    /// The content of the commit object.
    pub(super) fn object(&self, tree: TreeId, parent: Oid) -> Vec<u8> {
        let person = |role: &str, who: &Person| {
            format!("{role} {} <{}> {} +0000\n", who.name, who.email, self.at)
        };
        let message = self.message.split('\0').next().unwrap_or_default();
        let mut text = format!("tree {tree}\nparent {parent}\n");
        text += &person("author", &self.author);
        text += &person("committer", &self.committer);
        text += "\n";
        text += message.trim_end();
        text += "\n";
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_can_write_a_header_into_a_name() {
        for (name, email) in [
            ("a\nparent 0", "a@b"),
            ("a", "a@b> 0 +0000\nx <"),
            ("", "a@b"),
            (" a", "a@b"),
            ("a", " "),
            ("a\u{7}", "a@b"),
        ] {
            assert!(Person::new(name, email).is_err(), "{name:?} {email:?}");
        }
        assert!(Person::new(&"x".repeat(201), "a@b").is_err());
        assert!(Person::new("codex (gpt-5)", "codex@lane.invalid").is_ok());
    }
}
