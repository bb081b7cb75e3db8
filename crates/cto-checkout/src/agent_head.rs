//! The commit that an agent has checked out, as far as plain files tell. Only to know whether it has committed: nothing is
//! judged by it, and git never runs with what an agent could have written.
//!
//! Everything is opened beneath one directory, no link is followed, and every read has a cap. What is not told by a loose
//! reference and a loose object is not known.

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::Path;

use flate2::read::ZlibDecoder;

use crate::beneath;
use crate::oid::Oid;
use crate::tree_path::TreePath;

const REF_BYTES_MAX: u64 = 4 << 10;
/// Largest packed object and largest unpacked one that are looked at.
const PACKED_BYTES_MAX: u64 = 1 << 20;
const COMMIT_BYTES_MAX: u64 = 1 << 20;

/// A commit, and its tree where that could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentHead {
    pub commit: Oid,
    pub tree: Option<Oid>,
}

/// Reads what is checked out in a tree that is made of these directories, the topmost first: a file is the first one found.
pub fn agent_head(layers: &[&Path]) -> Option<AgentHead> {
    let head = read(layers, ".git/HEAD", REF_BYTES_MAX)?;
    let commit = match target_of(&head)? {
        Target::Commit(commit) => commit,
        Target::Branch(branch) => {
            let value = read(layers, &format!(".git/{branch}"), REF_BYTES_MAX)?;
            match target_of(&value)? {
                Target::Commit(commit) => commit,
                Target::Branch(_) => return None,
            }
        }
    };
    let hex = commit.to_string();
    let (first, rest) = hex.split_at(2);
    let object = read(
        layers,
        &format!(".git/objects/{first}/{rest}"),
        PACKED_BYTES_MAX,
    );
    let tree = object.and_then(|packed| tree_of(&packed));
    Some(AgentHead { commit, tree })
}

enum Target {
    Commit(Oid),
    Branch(String),
}

/// What a reference names.
fn target_of(text: &[u8]) -> Option<Target> {
    let text = std::str::from_utf8(text).ok()?.trim_end();
    match text.strip_prefix("ref: ") {
        None => text.parse().ok().map(Target::Commit),
        Some(name) => {
            let is_branch = name.starts_with("refs/heads/");
            let is_plain = crate::repository::is_ref_name(name.as_bytes());
            (is_branch && is_plain).then(|| Target::Branch(name.to_owned()))
        }
    }
}

/// The tree that a loose commit names.
fn tree_of(packed: &[u8]) -> Option<Oid> {
    let mut content = Vec::new();
    let unpacked = ZlibDecoder::new(packed).take(COMMIT_BYTES_MAX);
    // Half of it may be enough.
    let mut unpacked = unpacked;
    unpacked.read_to_end(&mut content).ok()?;
    let end = content.iter().position(|byte| *byte == 0)?;
    let (kind, body) = (&content[..end], &content[end + 1..]);
    let body = kind.starts_with(b"commit ").then_some(body)?;
    let digits = body.strip_prefix(b"tree ")?.get(..40)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn read(layers: &[&Path], path: &str, bytes_max: u64) -> Option<Vec<u8>> {
    let path = TreePath::from(path);
    let file = layers.iter().find_map(|layer| {
        let root = beneath::open_root(layer).ok()?;
        beneath::open_file(root.as_fd(), &path).ok()
    })?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= bytes_max).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use proptest::prelude::*;

    use super::*;

    const COMMIT: &str = "1111111111111111111111111111111111111111";
    const TREE: &str = "2222222222222222222222222222222222222222";

    fn put(top: &Path, path: &str, bytes: &[u8]) {
        let path = top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::File::create(path).unwrap();
        file.write_all(bytes).unwrap();
    }

    fn packed(text: &str) -> Vec<u8> {
        let mut out = ZlibEncoder::new(Vec::new(), Compression::fast());
        out.write_all(text.as_bytes()).unwrap();
        out.finish().unwrap()
    }

    fn object(commit: &str) -> String {
        format!(".git/objects/{}/{}", &commit[..2], &commit[2..])
    }

    #[test]
    fn the_commit_of_a_branch_and_its_tree_are_read_through_the_layers() {
        let (upper, lower) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let layers = [upper.path(), lower.path()];
        assert_eq!(agent_head(&layers), None);
        put(lower.path(), ".git/HEAD", b"ref: refs/heads/work\n");
        put(lower.path(), ".git/refs/heads/work", TREE.as_bytes());
        let seen = |layers: &[&Path]| agent_head(layers).map(|head| head.commit.to_string());
        assert_eq!(seen(&layers).as_deref(), Some(TREE));
        put(
            upper.path(),
            ".git/refs/heads/work",
            format!("{COMMIT}\n").as_bytes(),
        );
        assert_eq!(seen(&layers).as_deref(), Some(COMMIT));
        put(
            upper.path(),
            &object(COMMIT),
            &packed(&format!("commit 9\0tree {TREE}\nauthor x\n")),
        );
        let tree = agent_head(&layers).unwrap().tree;
        assert_eq!(tree.unwrap().to_string(), TREE);
    }

    #[test]
    fn links_other_references_and_odd_objects_tell_nothing() {
        let top = tempfile::tempdir().unwrap();
        let layers = [top.path()];
        for head in [
            "ref: refs/remotes/x",
            "ref: refs/heads/../../../etc/passwd",
            "ref: /etc/passwd",
            "no id",
            "",
        ] {
            put(top.path(), ".git/HEAD", head.as_bytes());
            assert_eq!(agent_head(&layers), None, "{head}");
        }
        put(top.path(), ".git/HEAD", COMMIT.as_bytes());
        for odd in [
            b"no zlib".to_vec(),
            packed(&format!("blob 9\0tree {TREE}\n")),
            packed("commit 3\0abc"),
            packed(&"x".repeat(3_000_000)),
        ] {
            put(top.path(), &object(COMMIT), &odd);
            assert_eq!(agent_head(&layers).unwrap().tree, None);
        }
        fs::remove_file(top.path().join(".git/HEAD")).unwrap();
        put(top.path(), "elsewhere", COMMIT.as_bytes());
        std::os::unix::fs::symlink("../elsewhere", top.path().join(".git/HEAD")).unwrap();
        assert_eq!(agent_head(&layers), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            tree_of(&bytes);
            target_of(&bytes);
        }
    }
}
