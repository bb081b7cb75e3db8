//! What of a program's installation is shown: the places that programs load from, and nothing else that lies there.
//!
//! Many tools keep their settings and tokens beside `bin`, so a directory is never shown whole because a program is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Names of directories whose programs need what lies beside them.
const PROGRAM_DIRECTORIES: [&str; 5] = ["bin", "sbin", "shims", "libexec", "condabin"];

/// Where programs of every kind have what they load.
const PARTS: [&str; 8] = [
    "bin", "sbin", "lib", "lib32", "lib64", "libexec", "share", "include",
];

/// Where a user's own programs are installed, and what lies beside them there: the data of all that he uses.
const PERSONAL: &str = ".local";
const PERSONAL_DATA: &str = "share";

/// An installation that needs more than that, known by what lies in it.
struct Toolchain {
    /// All of them must be there.
    marks: &'static [&'static str],
    parts: &'static [&'static str],
}

/// Toolchains by their layout. A part may lie deeper; what lies beside it there is not shown.
const TOOLCHAINS: &[Toolchain] = &[
    // A Python environment.
    Toolchain {
        marks: &["pyvenv.cfg"],
        parts: &["pyvenv.cfg"],
    },
    // Go.
    Toolchain {
        marks: &["VERSION", "src", "pkg"],
        parts: &["VERSION", "go.env", "src", "pkg"],
    },
    // A Java development kit, of today and of before version 9.
    Toolchain {
        marks: &["release", "lib/modules"],
        parts: &["release", "conf", "jmods"],
    },
    Toolchain {
        marks: &["release", "jre/lib"],
        parts: &["release", "jre"],
    },
    // pyenv and rbenv: a shim starts the program of a version.
    Toolchain {
        marks: &["versions", "shims", "libexec"],
        parts: &[
            "versions", "shims", "version", "plugins", "pyenv.d", "rbenv.d",
        ],
    },
    // asdf and mise.
    Toolchain {
        marks: &["installs", "shims"],
        parts: &["installs", "shims", "plugins", "asdf.sh", "VERSION"],
    },
    // volta.
    Toolchain {
        marks: &["tools/image"],
        parts: &["tools", "volta", "volta-shim", "volta-migrate"],
    },
    // bun.
    Toolchain {
        marks: &["install/global"],
        parts: &["install/global"],
    },
    // conda.
    Toolchain {
        marks: &["conda-meta"],
        parts: &[
            "conda-meta",
            "condabin",
            "ssl/cert.pem",
            "ssl/openssl.cnf",
            "compiler_compat",
        ],
    },
    // Maven: its own settings may hold passwords.
    Toolchain {
        marks: &["boot", "conf/logging"],
        parts: &["boot", "conf/logging"],
    },
    // Gradle and Ant.
    Toolchain {
        marks: &["init.d", "lib"],
        parts: &["init.d"],
    },
    Toolchain {
        marks: &["etc/ant-bootstrap.jar"],
        parts: &["etc"],
    },
    // Flutter and Dart.
    Toolchain {
        marks: &["packages/flutter"],
        parts: &["packages", "version"],
    },
    Toolchain {
        marks: &["revision", "version", "lib"],
        parts: &["revision", "version"],
    },
    // The command line of a cloud: its programs, not its settings.
    Toolchain {
        marks: &["lib/googlecloudsdk"],
        parts: &["platform"],
    },
];

/// A directory that holds a `bin`, as named and as it really is.
#[derive(Debug, Clone)]
pub struct Installation {
    pub named: PathBuf,
    pub real: PathBuf,
    /// Which of [`sought`] are there, and where they really lie.
    pub holds: BTreeMap<&'static str, PathBuf>,
}

/// Every name that matters in an installation.
pub fn sought() -> BTreeSet<&'static str> {
    let known = TOOLCHAINS
        .iter()
        .flat_map(|known| known.marks.iter().chain(known.parts));
    PARTS.iter().chain(known).copied().collect()
}

/// Returns the installation that a directory of programs belongs to, by its name alone. Where the directory itself is a link,
/// what lies beside that link is no part of it.
pub fn installation_of<'p>(named: &'p Path, real: &'p Path) -> Option<(&'p Path, &'p Path)> {
    let name = real.file_name()?;
    let is_program_directory = PROGRAM_DIRECTORIES.iter().any(|known| name == *known);
    if !is_program_directory {
        return None;
    }
    let is_same = named.file_name() == Some(name);
    let named = if is_same { named } else { real };
    Some((named.parent()?, real.parent()?))
}

impl Installation {
    /// The parts that are there: name, and where it really lies.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let more = TOOLCHAINS
            .iter()
            .filter(|known| known.marks.iter().all(|mark| self.holds.contains_key(mark)))
            .flat_map(|known| known.parts);
        let names: BTreeSet<&'static str> = PARTS.iter().chain(more).copied().collect();
        let is_personal = self.real.file_name().is_some_and(|name| name == PERSONAL);
        names
            .into_iter()
            .filter(move |name| !(is_personal && *name == PERSONAL_DATA))
            .filter_map(|name| Some((name, self.holds.get(name)?.as_path())))
    }
}

/// Returns where the interpreter of a Python environment lies, by its `pyvenv.cfg`.
pub fn interpreter_directory(pyvenv: &str) -> Option<PathBuf> {
    let home = pyvenv.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "home").then(|| PathBuf::from(value.trim()))
    })?;
    home.is_absolute().then_some(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_directory_of_programs_is_no_installation() {
        let found = |named: &'static str, real: &'static str| {
            installation_of(Path::new(named), Path::new(real))
                .map(|(named, real)| format!("{} {}", named.display(), real.display()))
        };
        let both = |text: &str| Some(text.to_owned());
        assert_eq!(found("/j/now/bin", "/j/17/bin"), both("/j/now /j/17"));
        assert_eq!(found("/home/you/mine", "/t/bin"), both("/t /t"));
        assert_eq!(found("/home/you/bin", "/t/scripts"), None);
    }

    #[test]
    fn the_interpreter_of_an_environment_is_found_where_its_settings_say() {
        let found = |text: &str| interpreter_directory(text).map(|p| p.display().to_string());
        let table = [
            (
                "home = /opt/py/bin\nversion = 3.11\n",
                Some("/opt/py/bin".to_owned()),
            ),
            ("version=3\nhome=/a b/bin", Some("/a b/bin".to_owned())),
            ("home = ../bin", None),
            ("homes = /x", None),
            ("", None),
        ];
        for (text, wanted) in table {
            assert_eq!(found(text), wanted, "{text}");
        }
    }
}
