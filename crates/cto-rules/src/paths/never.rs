//! What no contract can allow: git's own directory in every spelling, names that are no path, and links that lead out.

/// Says why a path can never be written.
pub(super) fn path_refusal(path: &str) -> Option<&'static str> {
    if path.contains('\0') {
        return Some("rule: the path holds a NUL");
    }
    path.split('/').find_map(|component| match component {
        "" => Some("rule: the path has an empty component"),
        "." | ".." => Some("rule: the path has a `.` or `..` component"),
        _ if is_git_dir(component) => Some("rule: git's own directory, in any spelling"),
        _ => None,
    })
}

/// Says why a link with this target can never stand at `path`.
pub(super) fn link_refusal(path: &[u8], target: Option<&[u8]>) -> Option<&'static str> {
    let Some(target) = target else {
        return Some("rule: the link's target cannot be read from the patch");
    };
    if is_gitmodules(path) {
        return Some("rule: git refuses `.gitmodules` as a link");
    }
    // Some versions of git follow such a link and some do not: what it says would hold in one checkout and not in another.
    if is_attributes_or_ignore(path) {
        return Some("rule: `.gitattributes` and `.gitignore` are never links");
    }
    if target.is_empty() || target.contains(&0) {
        return Some("rule: the link's target is no path");
    }
    if target.starts_with(b"/") {
        return Some("rule: the link's target is absolute");
    }
    let mut depth = path.split(|b| *b == b'/').count().saturating_sub(1);
    let mut went_down = false;
    for component in target.split(|b| *b == b'/') {
        match component {
            b"" | b"." => {}
            // Below a name that may itself be a link, `..` leads to wherever that link points.
            b".." if went_down => {
                return Some("rule: the link's target goes up after it went down");
            }
            b".." => match depth.checked_sub(1) {
                Some(up) => depth = up,
                None => return Some("rule: the link leaves the repository"),
            },
            name => {
                if std::str::from_utf8(name).is_ok_and(is_git_dir) {
                    return Some("rule: the link leads into git's own directory");
                }
                went_down = true;
            }
        }
    }
    None
}

fn is_gitmodules(path: &[u8]) -> bool {
    last_name(path).is_some_and(|name| {
        let folded = folded(name);
        matches!(without_ntfs_tail(&folded), ".gitmodules" | "gitmod~1")
    })
}

fn is_attributes_or_ignore(path: &[u8]) -> bool {
    let is_one = |name| {
        [".gitattributes", ".gitignore"]
            .iter()
            .any(|file| is_git_file(name, file))
    };
    last_name(path).is_some_and(is_one)
}

fn last_name(path: &[u8]) -> Option<&str> {
    let name = path.rsplit(|b| *b == b'/').next()?;
    std::str::from_utf8(name).ok()
}

/// The spellings of `.git` that git itself refuses, because some file system takes them for it.
///
/// HFS+ ignores some code points and case; NTFS ignores case, trailing dots and spaces and what follows a `:`, knows
/// the short name `git~1`, and takes `\` for a separator.
fn is_git_dir(component: &str) -> bool {
    folded(component)
        .split('\\')
        .any(|piece| matches!(without_ntfs_tail(piece), ".git" | "git~1"))
}

/// Whether some file system takes a name for this file of git's, such as `.gitattributes`; NTFS knows `gitatt~1`.
pub(super) fn is_git_file(name: &str, file: &str) -> bool {
    let short = file.get(1..7).unwrap_or(file);
    folded(name).split('\\').any(|piece| {
        let piece = without_ntfs_tail(piece);
        let number = piece.strip_prefix(short).and_then(|r| r.strip_prefix('~'));
        piece == file || number.is_some_and(|n| n.len() == 1 && n.as_bytes()[0].is_ascii_digit())
    })
}

fn folded(name: &str) -> String {
    name.chars()
        .filter(|c| !is_ignored_by_hfs(*c))
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

fn without_ntfs_tail(name: &str) -> &str {
    name.split(':')
        .next()
        .unwrap_or(name)
        .trim_end_matches(['.', ' '])
}

fn is_ignored_by_hfs(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}
