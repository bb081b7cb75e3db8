//! The project speaks only of itself: no path of the machine it was built on, no host it was built from.
//!
//! The needles are put together from halves so that this file does not contain what it forbids.

use std::path::Path;

use super::Finding;
use super::source::line_of;
use crate::workspace::ProjectFile;

/// Absolute folders that no instruction to a reader can mean.
const MACHINE_FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Folders of people; below them only the names that documents use as examples.
const PEOPLE_FOLDERS: &[&str] = &[concat!("/ho", "me/"), concat!("/Us", "ers/")];
const EXAMPLE_NAMES: &[&str] = &["you", "user"];

const REGISTRY_HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("ruby", "gems.org"),
];

pub(crate) fn check(files: &[ProjectFile], root: &Path) -> Vec<Finding> {
    // Cargo writes its registry into the lock file, the same line on every machine.
    let ours = files.iter().filter(|file| file.path != "Cargo.lock");
    ours.flat_map(|file| check_file(file, &root.to_string_lossy()))
        .collect()
}

fn check_file(file: &ProjectFile, root: &str) -> Vec<Finding> {
    let text = &file.text;
    let mut findings = Vec::new();
    let mut found = |at: usize, rule, sentence| {
        findings.push(Finding {
            file: file.path.clone(),
            line: line_of(text, at),
            rule,
            sentence,
        });
    };
    // A checkout directly below `/` has a name too common to look for.
    let own = Some(format!("{root}/")).filter(|own| own.matches('/').count() > 2);
    for folder in MACHINE_FOLDERS.iter().copied().chain(own.as_deref()) {
        for at in absolute(text, folder) {
            found(
                at,
                "machine-path",
                format!("`{folder}` is a path of one machine"),
            );
        }
    }
    for folder in PEOPLE_FOLDERS {
        for at in absolute(text, folder) {
            let rest = &text[at + folder.len()..];
            let end =
                rest.find(|next: char| !next.is_ascii_alphanumeric() && !"_-.".contains(next));
            let name = &rest[..end.unwrap_or(rest.len())];
            if !name.is_empty() && !EXAMPLE_NAMES.contains(&name) {
                let sentence = format!(
                    "`{folder}{name}` is a path of one machine; an example says `{folder}you`"
                );
                found(at, "machine-path", sentence);
            }
        }
    }
    let lower = text.to_ascii_lowercase();
    for host in REGISTRY_HOSTS {
        for (at, _) in lower.match_indices(host) {
            found(
                at,
                "registry-host",
                format!("`{host}` is the concern of whoever installs, not of the project"),
            );
        }
    }
    findings
}

/// Returns where `folder` begins a path, rather than being the middle of a longer one.
fn absolute<'a>(text: &'a str, folder: &'a str) -> impl Iterator<Item = usize> + 'a {
    let begins = |before: char| before.is_whitespace() || "\"'`(=:,<[|{!>@\0".contains(before);
    let places = text.match_indices(folder).map(|(at, _)| at);
    places.filter(move |at| text[..*at].chars().next_back().is_none_or(begins))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{file, rules, shown};
    use super::*;

    fn tripped(text: &str) -> Vec<&'static str> {
        rules(&check(
            &[file("docs/a.md", text)],
            Path::new("/srv/build/cto"),
        ))
    }

    #[test]
    fn a_path_of_one_machine_is_found_with_its_line() {
        let text = format!("ok\nsee {}main/a\n", MACHINE_FOLDERS[0]);
        let sentence = shown(&check(&[file("a.txt", &text)], Path::new("/srv/cto")));
        assert_eq!(
            sentence,
            format!(
                "a.txt:2: machine-path: `{}` is a path of one machine",
                MACHINE_FOLDERS[0]
            )
        );
        assert_eq!(
            tripped(&format!("\"{}.cargo\"", MACHINE_FOLDERS[1])),
            ["machine-path"]
        );
        assert_eq!(
            tripped(&format!("cd {}jane/src", PEOPLE_FOLDERS[0])),
            ["machine-path"]
        );
        assert_eq!(
            tripped("run /srv/build/cto/target/debug/cto"),
            ["machine-path"]
        );
    }

    #[test]
    fn relative_paths_and_examples_are_fine() {
        assert!(
            tripped("cases/a/work/b and $TMP/work/x and \"${dir}/work/x\" and ~/work/").is_empty()
        );
        assert!(
            tripped(&format!(
                "{0}you/app or {0}$USER or {0}<name>",
                PEOPLE_FOLDERS[0]
            ))
            .is_empty()
        );
        assert!(tripped("the root/ of a tree, /srv/app, /tmp/x, /home").is_empty());
    }

    #[test]
    fn a_checkout_below_the_root_folder_forbids_nothing() {
        assert!(check(&[file("a", "COPY . /app/src")], Path::new("/app")).is_empty());
    }

    #[test]
    fn registry_hosts_are_found_outside_the_lock_file() {
        let text = format!("from https://{}/simple", REGISTRY_HOSTS[1].to_uppercase());
        assert_eq!(tripped(&text), ["registry-host"]);
        assert!(check(&[file("Cargo.lock", &text)], Path::new("/srv/cto")).is_empty());
        assert!(tripped("cargo install, pip install").is_empty());
    }
}
