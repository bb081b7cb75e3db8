//! Files by which tools decide what a command runs, one row for each tool.
//!
//! Whoever writes one of them decides what a check is: which program it starts, which tests it collects, what it lets
//! pass. Names are compared without regard to case, as some tools and file systems do.

mod table;

use table::{EXACT, TOOLS};

/// The pattern of a tool that a path falls under.
pub(super) fn pattern_of(path: &str) -> Option<&'static str> {
    let components: Vec<&str> = path.split('/').collect();
    let name = components.last().copied().unwrap_or_default();
    if let Some(exact) = EXACT.iter().find(|known| **known == name) {
        return Some(exact);
    }
    let patterns = TOOLS.iter().flat_map(|(_, patterns)| patterns.iter());
    let mut patterns = patterns.copied();
    patterns.find(|pattern| falls_under(pattern, &components))
}

fn falls_under(pattern: &str, components: &[&str]) -> bool {
    let (pattern, is_directory) = match pattern.strip_suffix('/') {
        Some(directory) => (directory, true),
        None => (pattern, false),
    };
    let parts: Vec<&str> = pattern.split('/').collect();
    let fits = |window: &[&str], parts: &[&str]| {
        let mut both = window.iter().zip(parts);
        both.all(|(name, part)| matches(part, name))
    };
    let ends_in = |parts: &[&str]| {
        let start = components.len().checked_sub(parts.len());
        start.is_some_and(|start| fits(&components[start..], parts))
    };
    let is_below = || components.windows(parts.len()).any(|w| fits(w, &parts));
    (is_directory && is_below()) || (1..=parts.len()).any(|count| ends_in(&parts[..count]))
}

/// One `*` stands for anything, also for nothing: `tsconfig*.json` is `tsconfig.json` too.
fn matches(pattern: &str, name: &str) -> bool {
    let (name, pattern) = (name.as_bytes(), pattern.as_bytes());
    let Some(star) = pattern.iter().position(|&byte| byte == b'*') else {
        return name.eq_ignore_ascii_case(pattern);
    };
    let (start, end) = (&pattern[..star], &pattern[star + 1..]);
    name.len() + 1 >= pattern.len()
        && name[..start.len()].eq_ignore_ascii_case(start)
        && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_stand_once_and_are_of_one_kind() {
        let all: Vec<&str> = TOOLS.iter().flat_map(|(_, p)| p.iter()).copied().collect();
        let once: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(once.len(), all.len());
        for pattern in all {
            assert!(pattern.matches('*').count() <= 1, "{pattern}");
            assert!(!pattern.starts_with('/') && pattern != "*", "{pattern}");
            // Each is met by a name that is made from it, at any depth.
            for star in ["x", ""] {
                let name = pattern.replace('*', star);
                let name = match name.ends_with('/') {
                    true => format!("{name}x"),
                    false => name,
                };
                assert!(pattern_of(&name).is_some(), "{name}");
                assert!(pattern_of(&format!("a/b/{name}")).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn a_link_in_the_place_of_a_directory_is_meant_too() {
        for (path, expected) in [
            (".config/nextest.toml", Some(".config/nextest.toml")),
            (".config", Some(".config/mise/")),
            ("a/.mvn", Some(".mvn/")),
            (".config/other.toml", None),
            ("gradle/wrapper/gradle-wrapper.jar", Some("gradle/wrapper/")),
            ("wrapper/gradle-wrapper.jar", None),
        ] {
            assert_eq!(pattern_of(path), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_read_without_panic(path in "[a-z./*é]{0,30}") {
            let _pattern = pattern_of(&path);
        }

        #[test]
        fn case_and_depth_change_nothing(at in 0_usize..1_000, upper in any::<bool>()) {
            let all: Vec<&str> = TOOLS.iter().flat_map(|(_, p)| p.iter()).copied().collect();
            let name = all[at % all.len()].replace('*', if upper { "x1" } else { "" }).trim_end_matches('/').to_owned();
            let name = if upper { name.to_ascii_uppercase() } else { name.to_ascii_lowercase() };
            let deep = format!("deep/er/{name}");
            prop_assert!(pattern_of(&deep).is_some());
        }
    }
}
