//! Where a symbolic link leads, decided from its text and the tree alone.

use crate::tree_path::{TreePath, is_git_name, is_gitmodules_name};

/// Why a link may not be in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadLink {
    Absolute,
    Leaves,
    IntoGit,
    /// Git itself refuses a `.gitmodules` that is a link.
    Gitmodules,
}

/// Says what is wrong with a link, if anything.
///
/// A `..` right behind a name that is itself a link is refused, because where it leads depends on that other link:
/// with `here -> .`, the target `here/..` looks like the root and is the directory above it.
pub(crate) fn judge(
    path: &TreePath,
    target: &[u8],
    is_link: impl Fn(&[u8]) -> bool,
) -> Result<(), BadLink> {
    if is_gitmodules_name(path.name()) {
        return Err(BadLink::Gitmodules);
    }
    if target.first() == Some(&b'/') {
        return Err(BadLink::Absolute);
    }
    let mut at = path.parent().to_vec();
    for name in target.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if at.is_empty() || is_link(&at) => return Err(BadLink::Leaves),
            b".." => at.truncate(crate::tree_path::parent_of(&at).len()),
            name if is_git_name(name) => return Err(BadLink::IntoGit),
            name => {
                if !at.is_empty() {
                    at.push(b'/');
                }
                at.extend_from_slice(name);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(path: &str, target: &str) -> String {
        let links = ["here", "d/down"];
        let is_link = |at: &[u8]| links.iter().any(|link| link.as_bytes() == at);
        format!("{:?}", judge(&path.into(), target.as_bytes(), is_link))
    }

    #[test]
    fn a_link_must_stay_in_its_tree() {
        for (path, target, expected) in [
            ("a", "b", "Ok(())"),
            ("a", "b/../c", "Ok(())"),
            ("a", ".", "Ok(())"),
            ("d/e/a", "../../b", "Ok(())"),
            ("d/a", "..", "Ok(())"),
            ("a", "dangling/nowhere", "Ok(())"),
            ("a", "here/b", "Ok(())"),
            ("d/x", "down/y/../z", "Ok(())"),
            ("a", "..", "Err(Leaves)"),
            ("d/a", "../..", "Err(Leaves)"),
            ("a", "b/../../c", "Err(Leaves)"),
            ("a", "here/..", "Err(Leaves)"),
            ("d/x", "down//./../z", "Err(Leaves)"),
            ("a", "/etc/passwd", "Err(Absolute)"),
            ("a", "//", "Err(Absolute)"),
            ("a", ".git/config", "Err(IntoGit)"),
            ("d/a", "../.GIT/hooks", "Err(IntoGit)"),
            (".gitmodules", "b", "Err(Gitmodules)"),
        ] {
            assert_eq!(verdict(path, target), expected, "{path} -> {target}");
        }
    }
}
