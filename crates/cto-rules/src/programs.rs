//! What an installed program really is, as people install programs: links, shebangs, packages and shims, by name and bytes.
//!
//! The runner looks files up and reads their first bytes; what they mean, and where to look next, is decided here.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use cto_contract::words::Lane;

/// So much of a file tells what it is.
pub const HEAD_BYTES: usize = 512;

/// What a file is, by its first bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramKind {
    /// The kernel runs it by itself.
    Native,
    /// Another program runs it.
    Script(Interpreter),
    /// Nothing that the kernel runs.
    Other,
}

/// The program that runs a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interpreter {
    At(PathBuf),
    /// Looked up on `PATH`, as `env` does it.
    Named(String),
}

impl Interpreter {
    /// Its name, without a path.
    pub fn name(&self) -> &str {
        match self {
            Self::At(path) => path.file_name().and_then(OsStr::to_str).unwrap_or(""),
            Self::Named(name) => name,
        }
    }

    /// Whether it is a shell: a script of one may start anything, so its digest says nothing of what runs.
    pub fn is_shell(&self) -> bool {
        ["sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"].contains(&self.name())
    }

    /// Whether it runs JavaScript.
    pub fn is_node(&self) -> bool {
        ["node", "nodejs", "bun", "deno"].contains(&self.name())
    }
}

/// Tells what a file is.
pub fn kind_of(head: &[u8]) -> ProgramKind {
    if head.starts_with(b"\x7fELF") {
        return ProgramKind::Native;
    }
    let Some(rest) = head.strip_prefix(b"#!") else {
        return ProgramKind::Other;
    };
    let line = rest.split(|b| *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let Some(first) = words.next().filter(|word| word.starts_with('/')) else {
        return ProgramKind::Other;
    };
    let path = PathBuf::from(first);
    if path.file_name() != Some(OsStr::new("env")) {
        return ProgramKind::Script(Interpreter::At(path));
    }
    // `env -S node --flag`, `env NAME=value node`.
    let named = words.find(|word| !word.starts_with('-') && !word.contains('='));
    match named {
        Some(name) if name.starts_with('/') => ProgramKind::Script(Interpreter::At(name.into())),
        Some(name) => ProgramKind::Script(Interpreter::Named(name.to_owned())),
        None => ProgramKind::Other,
    }
}

/// A package that npm or one of its kind installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePackage {
    /// Such as `@openai/codex`.
    pub name: String,
    pub root: PathBuf,
    /// The `node_modules` that holds it.
    pub modules: PathBuf,
    /// The highest `node_modules` above it: what it loads lies below, wherever it was put.
    pub top: PathBuf,
}

/// The innermost package that a file belongs to, by its path alone.
pub fn package_of(real: &Path) -> Option<NodePackage> {
    let parts: Vec<Component<'_>> = real.components().collect();
    let is_modules = |part: &Component<'_>| part.as_os_str() == "node_modules";
    let top = parts.iter().position(is_modules)?;
    let nearest = parts.iter().rposition(is_modules)?;
    let text = |at: usize| parts.get(at)?.as_os_str().to_str();
    let first = text(nearest + 1)?;
    let (name, length) = match first.starts_with('@') {
        true => (format!("{first}/{}", text(nearest + 2)?), 2),
        false => (first.to_owned(), 1),
    };
    // The last part is the file itself.
    if first.starts_with('.') || nearest + length + 1 >= parts.len() {
        return None;
    }
    let up_to = |count: usize| parts[..count].iter().collect::<PathBuf>();
    Some(NodePackage {
        name,
        root: up_to(nearest + 1 + length),
        modules: up_to(nearest + 1),
        top: up_to(top + 1),
    })
}

/// How a lane's program is published.
struct Published {
    packages: &'static [&'static str],
    /// Where the package for one platform has the program; `{cpu}` and `{triple}` stand for this machine.
    natives: &'static [&'static str],
}

const fn published(lane: Lane) -> Published {
    match lane {
        Lane::Codex => Published {
            packages: &["@openai/codex"],
            natives: &[
                "@openai/codex-linux-{cpu}/vendor/{triple}/bin/codex",
                "@openai/codex-linux-{cpu}/vendor/{triple}/codex/codex",
                "@openai/codex/vendor/{triple}/bin/codex",
                "@openai/codex/vendor/{triple}/codex/codex",
            ],
        },
        Lane::Pi => Published {
            packages: &[
                "@earendil-works/pi-coding-agent",
                "@mariozechner/pi-coding-agent",
            ],
            natives: &[],
        },
        Lane::Claude => Published {
            packages: &["@anthropic-ai/claude-code"],
            natives: &[
                "@anthropic-ai/claude-code-linux-{cpu}/claude",
                "@anthropic-ai/claude-code-linux-{cpu}-musl/claude",
            ],
        },
        Lane::Fake | Lane::Command | Lane::Case | Lane::Acp => Published {
            packages: &[],
            natives: &[],
        },
    }
}

/// The packages that a lane's program is published in.
pub fn packages_of(lane: Lane) -> &'static [&'static str] {
    published(lane).packages
}

/// Where the real binary may lie of a program whose package only brings a script to start it, best first.
pub fn natives(lane: Lane, package: &NodePackage, machine: &str) -> Vec<PathBuf> {
    let known = published(lane);
    if !known.packages.contains(&package.name.as_str()) {
        return Vec::new();
    }
    let (cpu, triple) = match machine {
        "aarch64" => ("arm64", "aarch64-unknown-linux-musl"),
        _ => ("x64", "x86_64-unknown-linux-musl"),
    };
    // Beside it, or in a `node_modules` of its own.
    let places = [package.modules.clone(), package.root.join("node_modules")];
    let fill = |shape: &&str| shape.replace("{cpu}", cpu).replace("{triple}", triple);
    let shapes: Vec<String> = known.natives.iter().map(fill).collect();
    places
        .iter()
        .flat_map(|place| shapes.iter().map(|shape| place.join(shape)))
        .collect()
}

/// Where the program lies that a version manager's shim would start, by the name it was called with.
pub fn behind_shim(lane: Lane, named: &Path, real: &Path) -> Vec<PathBuf> {
    let is_volta = real.file_name() == Some(OsStr::new("volta-shim"));
    let (Some(home), Some(name)) = (named.parent().and_then(Path::parent), named.file_name())
    else {
        return Vec::new();
    };
    if !is_volta {
        return Vec::new();
    }
    let image = home.join("tools/image/packages");
    let packages = published(lane).packages.iter();
    packages
        .map(|package| image.join(package).join("bin").join(name))
        .collect()
}

/// What is the matter with a lane's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramProblem {
    Missing,
    /// Its links lead in a circle, or to nothing.
    LeadsNowhere,
    NotAFile,
    NotExecutable,
    ClosedToOthers,
    ShellScript,
    /// Nothing that a kernel runs, and no package that it belongs to.
    NoProgram,
    /// The package is there, and its binary for this machine is not.
    NativeMissing,
    InterpreterMissing(String),
    /// It may not be shown inside.
    Refused(String),
}

impl fmt::Display for ProgramProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("it is not on PATH"),
            Self::LeadsNowhere => f.write_str("its links lead in a circle or to nothing"),
            Self::NotAFile => f.write_str("it is no file"),
            Self::NotExecutable => f.write_str("it may not be executed"),
            Self::ClosedToOthers => f.write_str(
                "others may not read it, so no agent is shown it (`chmod o+rx` opens it)",
            ),
            Self::ShellScript => f.write_str(
                "it is a shell script, whose digest says nothing of the program that it starts",
            ),
            Self::NoProgram => f.write_str("it is neither a binary nor a script with a `#!` line"),
            Self::NativeMissing => f.write_str(
                "its package holds no binary for this machine (npm was told to leave optional packages out?)",
            ),
            Self::InterpreterMissing(name) => {
                write!(f, "`{name}`, which runs it, is not on PATH")
            }
            Self::Refused(why) => f.write_str(why),
        }
    }
}

/// What to do about it.
pub fn remedy(lane: Lane, problem: &ProgramProblem) -> String {
    let variable = format!("CTO_HARNESS_{}_BIN", lane.as_str().to_ascii_uppercase());
    let install = packages_of(lane)
        .first()
        .map(|package| format!("npm install -g {package}"));
    match (problem, install) {
        (ProgramProblem::Missing | ProgramProblem::NativeMissing, Some(install)) => {
            format!("`{install}` installs it; {variable} names it where it lies elsewhere")
        }
        (ProgramProblem::Refused(_), _) => {
            format!(
                "name its directory in `read_paths` of harness.yaml, or another program by {variable}"
            )
        }
        _ => format!("{variable} names the program itself"),
    }
}
