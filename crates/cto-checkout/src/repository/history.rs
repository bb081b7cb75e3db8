//! Commits as they are written: who, what, on which tree; and which of them lie between two.

use std::time::Duration;

use crate::git::Call;
use crate::oid::{Oid, TreeId};
use crate::repository::batch::NoAnswer;
use crate::repository::error::RepositoryError;
use crate::repository::{OBJECT_SETTINGS, Repository, tree_of};

const WALL: Duration = Duration::from_secs(300);
/// Enough for a hundred thousand commits.
const LIST_BYTES_MAX: u64 = 41 * 100_000;
const COMMIT_BYTES_MAX: u64 = 64 << 20;

/// A commit with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRecord {
    pub id: Oid,
    pub tree: TreeId,
    pub author_email: String,
    pub message: String,
}

impl Repository {
    /// The commits that `head` holds and `base` does not, the newest first.
    pub fn commits_between(&self, base: Oid, head: Oid) -> Result<Vec<Oid>, RepositoryError> {
        let call = self.ask(
            "rev-list",
            vec![head.to_string(), format!("^{base}")],
            LIST_BYTES_MAX,
        );
        let mut answer = Vec::new();
        let finished = call.run_with(OBJECT_SETTINGS, std::process::Stdio::null(), &mut answer)?;
        call.expect_success(finished, &[])?;
        let lines = answer
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let ids = lines.map(|line| std::str::from_utf8(line).ok()?.parse().ok());
        let ids: Option<Vec<Oid>> = ids.collect();
        ids.ok_or(RepositoryError::Answer { verb: "rev-list" })
    }

    /// Reads a commit, checked against its id.
    pub fn commit_record(&self, id: Oid) -> Result<CommitRecord, RepositoryError> {
        let arguments = vec!["commit".to_owned(), id.to_string()];
        let call = self.ask("cat-file", arguments, COMMIT_BYTES_MAX);
        let mut content = Vec::new();
        let finished = call.run_with(OBJECT_SETTINGS, std::process::Stdio::null(), &mut content)?;
        call.expect_success(finished, &[])?;
        if super::object_id(crate::git_dir::ObjectKind::Commit, &content) != id {
            return Err(RepositoryError::Corrupt {
                path: crate::TreePath::from(id.to_string().as_str()),
                oid: id,
            });
        }
        let (author_email, message) = parts(&content);
        Ok(CommitRecord {
            id,
            tree: tree_of(&content).ok_or(NoAnswer)?,
            author_email,
            message,
        })
    }

    fn ask(&self, verb: &'static str, arguments: Vec<String>, output_bytes_max: u64) -> Call<'_> {
        Call {
            verb,
            arguments,
            git_dir: self.git_dir.path(),
            work_tree: None,
            wall: WALL,
            output_bytes_max,
        }
    }
}

/// The address of the author and the message. What is no text is read as well as it can be.
fn parts(commit: &[u8]) -> (String, String) {
    let end = commit.windows(2).position(|pair| pair == b"\n\n");
    let (head, message) = match end {
        Some(end) => (&commit[..end], &commit[end + 2..]),
        None => (commit, &b""[..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let author = lines.find_map(|line| line.strip_prefix(b"author "));
    let author = String::from_utf8_lossy(author.unwrap_or_default()).into_owned();
    let email = author
        .rsplit_once('<')
        .and_then(|(_, rest)| rest.split_once('>'));
    let email = email.map(|(email, _)| email.to_owned()).unwrap_or_default();
    (email, String::from_utf8_lossy(message).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_commit_is_taken_apart() {
        let text = b"tree 1\nparent 2\nauthor A <B> <a@b> 1 +0000\ncommitter C <c@d> 1 +0000\n\nTitle\n\nbody\n";
        let (email, message) = parts(text);
        assert_eq!(
            (email.as_str(), message.as_str()),
            ("a@b", "Title\n\nbody\n")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_offered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(parts(&bytes));
        }
    }
}
