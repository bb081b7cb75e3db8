//! Object directories that a repository borrows from, and ours that borrow from it.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::repository::error::{RepositoryError, UnsupportedKind};
use crate::repository::git_files::special_file;
use crate::repository::place::metadata;

const ALTERNATES_BYTES_MAX: u64 = 1 << 20;
/// As deep as git itself goes.
const DEPTH_MAX: usize = 5;
const DIRECTORIES_MAX: usize = 64;
/// `objects/info/commit-graphs/` is the deepest.
const OBJECTS_DEPTH_MAX: usize = 3;

/// Returns the object directory and all it borrows from, as absolute paths.
pub(crate) fn object_directories(objects: &Path) -> Result<Vec<PathBuf>, RepositoryError> {
    let first = std::fs::canonicalize(objects).map_err(RepositoryError::read(objects))?;
    check_objects(&first)?;
    let mut found = vec![first.clone()];
    let mut level = vec![first];
    for _ in 0..DEPTH_MAX {
        let mut next = Vec::new();
        for directory in level {
            let list = directory.join("info/alternates");
            let text = match metadata(&list)? {
                Some(file) if file.is_file() && file.len() <= ALTERNATES_BYTES_MAX => {
                    std::fs::read(&list).map_err(RepositoryError::read(&list))?
                }
                _ => continue,
            };
            for named in parse(&text) {
                // One that is gone is no reason to stop: git goes on without it too.
                let Ok(path) = std::fs::canonicalize(directory.join(named)) else {
                    continue;
                };
                if found.len() < DIRECTORIES_MAX && path.is_dir() && !found.contains(&path) {
                    check_objects(&path)?;
                    found.push(path.clone());
                    next.push(path);
                }
            }
        }
        level = next;
    }
    Ok(found)
}

/// Refuses an object directory in which git, which opens what it finds there, would wait or be led elsewhere.
fn check_objects(top: &Path) -> Result<(), RepositoryError> {
    let mut left = vec![(top.to_owned(), 0)];
    while let Some((directory, depth)) = left.pop() {
        let failed = || RepositoryError::read(&directory);
        for entry in std::fs::read_dir(&directory).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let kind = entry.file_type().map_err(failed())?;
            let path = entry.path();
            if kind.is_dir() {
                // Git itself looks no deeper.
                if depth < OBJECTS_DEPTH_MAX {
                    left.push((path, depth + 1));
                }
            } else if kind.is_symlink() {
                return Err(RepositoryError::unsupported(
                    UnsupportedKind::LinkInGitDirectory,
                    format_args!("`{}` is a symbolic link", path.display()),
                ));
            } else if !kind.is_file() {
                return Err(special_file(&path));
            }
        }
    }
    Ok(())
}

/// Writes the file that makes a git directory of ours borrow from these.
pub(crate) fn encode<'a>(directories: impl IntoIterator<Item = &'a Path>) -> Vec<u8> {
    let mut text = Vec::new();
    for directory in directories {
        text.push(b'"');
        for &byte in directory.as_os_str().as_bytes() {
            match byte {
                b'"' | b'\\' => text.extend([b'\\', byte]),
                b' '..=b'~' => text.push(byte),
                _ => text.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            }
        }
        text.extend_from_slice(b"\"\n");
    }
    text
}

fn parse(text: &[u8]) -> Vec<PathBuf> {
    let lines = text.split(|&byte| byte == b'\n');
    lines
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .map(|line| match line.strip_prefix(b"\"").and_then(unquote) {
            Some(path) => PathBuf::from(std::ffi::OsString::from_vec(path)),
            None => PathBuf::from(OsStr::from_bytes(line)),
        })
        .collect()
}

/// Reads what git puts between quotes; `None` for anything else.
fn unquote(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = text.iter().copied();
    let mut path = Vec::new();
    loop {
        match bytes.next()? {
            b'"' => return bytes.next().is_none().then_some(path),
            b'\\' => path.push(match bytes.next()? {
                b'a' => 7,
                b'b' => 8,
                b't' => b'\t',
                b'n' => b'\n',
                b'v' => 11,
                b'f' => 12,
                b'r' => b'\r',
                byte @ (b'"' | b'\\') => byte,
                high @ b'0'..=b'3' => {
                    let mut digit = || bytes.next().filter(u8::is_ascii_digit).map(|d| d - b'0');
                    let (middle, low) = (digit()?, digit()?);
                    if middle > 7 || low > 7 {
                        return None;
                    }
                    (high - b'0') << 6 | middle << 3 | low
                }
                _ => return None,
            }),
            byte => path.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn comments_and_blank_lines_are_left_out() {
        let found = parse(b"# no\n\n../a\n/b c\n\"/d\\ne\"\n\"open\n");
        let found: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(found, ["../a", "/b c", "/d\ne", "\"open"]);
    }

    proptest! {
        #[test]
        fn any_path_survives_being_written_and_read(bytes in proptest::collection::vec(1_u8.., 1..40)) {
            let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
            prop_assert_eq!(parse(&encode([path.as_path()])), [path]);
        }

        #[test]
        fn any_bytes_can_be_offered(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            drop(parse(&bytes));
        }
    }
}
