//! Which paths of the operator's machine may be shown to an agent as inputs.
//!
//! Refused is what holds authority or secrets, or what could carry a change to somewhere else. The list of secret places
//! is a net below the contract, not a licence for the rest: a person names every input.

use std::fmt;
use std::path::{Path, PathBuf};

/// What is known about an input. All paths are real ones: no link is left in them.
#[derive(Debug, Clone)]
pub struct InputFacts<'a> {
    pub path: &'a Path,
    /// Top of the repository that is worked on.
    pub repository: Option<PathBuf>,
    /// The homes of who runs this: as the environment says, and as the system knows it.
    pub user_homes: Vec<PathBuf>,
    /// The harness's home and its configuration.
    pub harness: Vec<PathBuf>,
    /// Another repository that the path is in, or is.
    pub other_repository: Option<PathBuf>,
}

/// Why an input is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputRefusal {
    /// It is, holds, or lies in the harness's home or configuration.
    Harness,
    /// It is, holds, or lies in a place for keys and credentials.
    Secret(String),
    /// It is, or lies in, another repository.
    OtherRepository,
    /// It holds the whole repository that is worked on.
    OwnRepository,
    /// It belongs to the kernel or to running services.
    System,
    HoldsSocket(PathBuf),
    HoldsSpecialFile(PathBuf),
}

impl fmt::Display for InputRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |p: &Path| cto_contract::text::shorten(&p.to_string_lossy(), 120);
        match self {
            Self::Harness => f.write_str("it would show the harness's home or configuration"),
            Self::Secret(place) => write!(f, "it would show `{place}`, a place for credentials"),
            Self::OtherRepository => f.write_str("it lies in another repository"),
            Self::OwnRepository => {
                f.write_str("it would show the repository itself, of which the agent gets a copy")
            }
            Self::System => f.write_str("it belongs to the system, not to a project"),
            Self::HoldsSocket(path) => write!(f, "it holds the socket `{}`", shown(path)),
            Self::HoldsSpecialFile(path) => {
                write!(f, "`{}` is neither file, directory nor link", shown(path))
            }
        }
    }
}

/// Places below a user's home that hold credentials.
const SECRET_IN_HOME: [&str; 24] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".docker",
    ".kube",
    ".netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".git-credentials",
    ".password-store",
    ".local/share/keyrings",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".mozilla",
    ".config/chromium",
];
const SYSTEM: [&str; 7] = ["/proc", "/sys", "/dev", "/run", "/boot", "/var/run", STATE];
/// The state of services, each in a directory that is often the home of its own user.
const STATE: &str = "/var/lib";
const SECRET_IN_SYSTEM: [&str; 3] = ["/etc", "/var/spool", "/var/log"];

/// Refuses an input by name, or lets it pass.
pub fn judge_input(facts: &InputFacts<'_>) -> Option<InputRefusal> {
    let path = facts.path;
    let overlaps = |other: &Path| path.starts_with(other) || other.starts_with(path);
    if facts.harness.iter().any(|place| overlaps(place)) {
        return Some(InputRefusal::Harness);
    }
    let in_a_home = |place: &&&str| {
        let homes = facts.user_homes.iter();
        homes.map(|home| home.join(place)).any(|p| overlaps(&p))
    };
    if let Some(place) = SECRET_IN_HOME.iter().find(in_a_home) {
        return Some(InputRefusal::Secret(format!("~/{place}")));
    }
    if let Some(place) = SECRET_IN_SYSTEM.iter().find(|p| overlaps(Path::new(p))) {
        return Some(InputRefusal::Secret((*place).to_owned()));
    }
    let is_in_own_home = facts
        .user_homes
        .iter()
        .any(|home| home.starts_with(STATE) && home != Path::new(STATE) && path.starts_with(home));
    if !is_in_own_home && SYSTEM.iter().any(|p| overlaps(Path::new(p))) {
        return Some(InputRefusal::System);
    }
    if facts
        .repository
        .as_ref()
        .is_some_and(|own| own.starts_with(path))
    {
        return Some(InputRefusal::OwnRepository);
    }
    facts
        .other_repository
        .is_some()
        .then_some(InputRefusal::OtherRepository)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(path: &str) -> String {
        let facts = InputFacts {
            path: Path::new(path),
            repository: Some("/srv/app".into()),
            user_homes: vec!["/tmp/build".into(), "/home/you".into()],
            harness: vec![
                "/home/you/.local/state/cto".into(),
                "/home/you/.config/cto".into(),
            ],
            other_repository: path.starts_with("/srv/other").then(|| "/srv/other".into()),
        };
        judge_input(&facts).map_or_else(|| "shown".to_owned(), |why| why.to_string())
    }

    #[test]
    fn an_input_never_shows_keys_the_harness_or_another_repository() {
        for path in [
            "/home/you/.cargo/registry",
            "/home/you/.rustup",
            "/srv/app/node_modules",
            "/srv/app/.venv",
            "/opt/toolchain",
            "/usr/share/dict",
        ] {
            assert_eq!(judged(path), "shown", "{path}");
        }
        for path in [
            "/home/you/.ssh",
            "/home/you/.ssh/id",
            "/home/you",
            "/home",
            "/",
        ] {
            assert_ne!(judged(path), "shown", "{path}");
        }
        assert_eq!(
            judged("/home/you/.ssh/id"),
            "it would show `~/.ssh`, a place for credentials"
        );
        assert_eq!(
            judged("/home/you/.cargo"),
            "it would show `~/.cargo/credentials`, a place for credentials"
        );
        assert_eq!(
            judged("/home/you/.local/state/cto/keys"),
            "it would show the harness's home or configuration"
        );
        assert_eq!(
            judged("/home/you/.local/state"),
            "it would show the harness's home or configuration"
        );
        assert_eq!(judged("/srv/other/lib"), "it lies in another repository");
        assert_eq!(
            judged("/srv/app"),
            "it would show the repository itself, of which the agent gets a copy"
        );
        assert_eq!(
            judged("/etc/hosts"),
            "it would show `/etc`, a place for credentials"
        );
        assert_eq!(
            judged("/proc/1"),
            "it belongs to the system, not to a project"
        );
    }

    #[test]
    fn the_home_of_a_service_is_a_home() {
        let judged = |path: &str, home: &str| {
            let facts = InputFacts {
                path: Path::new(path),
                repository: None,
                user_homes: vec![home.into()],
                harness: Vec::new(),
                other_repository: None,
            };
            judge_input(&facts).map_or_else(|| "shown".to_owned(), |why| why.to_string())
        };
        let system = "it belongs to the system, not to a project";
        let home = "/var/lib/builder";
        assert_eq!(judged("/var/lib/builder/tools/run", home), "shown");
        assert_eq!(judged("/var/lib/other/tools/run", home), system);
        assert_eq!(
            judged("/var/lib", home),
            "it would show `~/.ssh`, a place for credentials"
        );
        assert_eq!(
            judged("/var/lib/builder/.ssh/id", home),
            "it would show `~/.ssh`, a place for credentials"
        );
        // A home that is everybody's is nobody's, and no other place of the system is one.
        assert_eq!(judged("/var/lib/x", "/var/lib"), system);
        assert_eq!(judged("/proc/1/cwd", "/proc/1"), system);
    }

    #[test]
    fn what_holds_a_refused_place_is_refused_too() {
        for refused in [
            "/home/you/.aws/credentials",
            "/srv/app",
            "/proc/1",
            "/home/you/.config/cto",
        ] {
            for above in Path::new(refused).ancestors() {
                assert_ne!(
                    judged(&above.to_string_lossy()),
                    "shown",
                    "{}",
                    above.display()
                );
            }
        }
    }
}
