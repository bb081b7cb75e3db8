//! Looks at a tree for a canary and plants it: by directory descriptor, with no link followed and every read capped.
//!
//! The tree may be one of layers. Then what a lower layer holds shows through unless a mark above hides it, and only
//! the topmost layer is written.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use cto_rules::checks::{CanaryPlan, Entry, EntryKind, NoPlan, Planted, Runner, TreeFacts, Wanted};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

/// How much of a file is read for one fact: settings and package clauses stand near its beginning.
const TEXT_BYTES_MAX: u64 = 1 << 20;
/// How many names of a directory are read for one fact.
const ENTRIES_MAX: usize = 20_000;
/// What the kernel leaves on a directory that hides all below it.
const OPAQUE: [&str; 2] = ["user.overlay.opaque", "trusted.overlay.opaque"];

/// A tree as the commands see it: its layers, the topmost first.
pub(super) struct Layers {
    roots: Vec<OwnedFd>,
}

/// By what a file is known to be as it was: nobody can set when its inode last changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileState {
    inode: u64,
    bytes: i64,
    changed: (i64, u64),
}

/// What a name stands for in one layer.
enum Found {
    Nothing,
    /// A mark that hides what is below.
    Hidden,
    Directory,
    Other(EntryKind),
}

impl Layers {
    pub(super) fn open<'a>(roots: impl IntoIterator<Item = &'a Path>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path| rustix::fs::open(path, flags, Mode::empty());
        let roots = roots.into_iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { roots })
    }

    /// Asks the rules for a plan, and looks up what they miss until they have one.
    pub(super) fn plan(
        &self,
        runner: &Runner,
        token: &str,
    ) -> io::Result<Result<CanaryPlan, String>> {
        let mut facts = TreeFacts::default();
        loop {
            match runner.canary(token, &facts) {
                Ok(plan) => return Ok(Ok(plan)),
                Err(NoPlan::Because(why)) => return Ok(Err(why)),
                Err(NoPlan::Needs(Wanted::Text(path))) => {
                    let text = self.text(&path)?;
                    facts.learn_text(path, text);
                }
                Err(NoPlan::Needs(Wanted::List(dir))) => {
                    let entries = self.list(&dir)?;
                    facts.learn_list(dir, entries);
                }
            }
        }
    }

    /// Writes a planted file into the topmost layer.
    pub(super) fn plant(&self, planted: &Planted) -> io::Result<()> {
        let mut parts: Vec<&str> = planted.path.split('/').collect();
        let name = parts.pop().unwrap_or_default();
        let mut shown = self.copies()?;
        let mut top = reopened(self.roots.first().ok_or(Errno::NOENT)?)?;
        for part in parts {
            let (below, other) = step(&shown, part)?;
            if other.is_some() {
                return Err(Errno::NOTDIR.into());
            }
            shown = below;
            match rustix::fs::mkdirat(&top, part, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            top = open_directory(&top, part)?;
        }
        if step(&shown, name)?.1.is_some() {
            return Err(Errno::EXIST.into());
        }
        let before = rustix::fs::fstat(shown.first().unwrap_or(&top))?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&top, name, flags, Mode::from_raw_mode(0o644))?;
        let mut file = File::from(file);
        file.write_all(planted.content.as_bytes())?;
        // What is new is not to be known by its time.
        let times = times_of(&before);
        rustix::fs::futimens(&file, &times)?;
        Ok(rustix::fs::futimens(&top, &times)?)
    }

    /// Removes a planted file from the topmost layer.
    pub(super) fn uproot(&self, planted: &Planted) -> io::Result<()> {
        let (dir, name) = planted.path.rsplit_once('/').unwrap_or(("", &planted.path));
        let mut top = reopened(self.roots.first().ok_or(Errno::NOENT)?)?;
        for part in dir.split('/').filter(|part| !part.is_empty()) {
            top = open_directory(&top, part)?;
        }
        Ok(rustix::fs::unlinkat(&top, name, AtFlags::empty())?)
    }

    fn copies(&self) -> io::Result<Vec<OwnedFd>> {
        self.roots.iter().map(reopened).collect()
    }

    /// The directories that show through at a path, the topmost first; none when it is no directory.
    fn directories(&self, path: &str) -> io::Result<Vec<OwnedFd>> {
        let mut shown = self.copies()?;
        for part in path.split('/').filter(|p| !p.is_empty()) {
            shown = step(&shown, part)?.0;
        }
        Ok(shown)
    }

    /// The beginning of a regular file, as text.
    fn text(&self, path: &str) -> io::Result<Option<String>> {
        self.read(path, TEXT_BYTES_MAX)
    }

    /// So much of a regular file of the tree, as text; none when it is something else or not there.
    pub(super) fn read(&self, path: &str, bytes_max: u64) -> io::Result<Option<String>> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        for dir in self.directories(dir)? {
            match look(&dir, name)? {
                Found::Nothing => {}
                Found::Hidden
                | Found::Directory
                | Found::Other(EntryKind::Directory | EntryKind::Other) => {
                    return Ok(None);
                }
                Found::Other(EntryKind::File) => {
                    let flags =
                        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                    let file = File::from(rustix::fs::openat(&dir, name, flags, Mode::empty())?);
                    let mut bytes = Vec::new();
                    file.take(bytes_max).read_to_end(&mut bytes)?;
                    return Ok(Some(String::from_utf8_lossy(&bytes).into_owned()));
                }
            }
        }
        Ok(None)
    }

    /// How a regular file of the topmost layer is; none when it is something else or not there.
    pub(super) fn state(&self, path: &str) -> io::Result<Option<FileState>> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut top = reopened(self.roots.first().ok_or(Errno::NOENT)?)?;
        for part in dir.split('/').filter(|part| !part.is_empty()) {
            top = match open_directory(&top, part) {
                Ok(below) => below,
                Err(_) => return Ok(None),
            };
        }
        let stat = match rustix::fs::statat(&top, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(is_file.then_some(FileState {
            inode: stat.st_ino,
            bytes: stat.st_size,
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }))
    }

    fn list(&self, path: &str) -> io::Result<Vec<Entry>> {
        let mut names = std::collections::BTreeMap::new();
        for dir in self.directories(path)? {
            for entry in Dir::read_from(&dir)? {
                let entry = entry?;
                // A name that is not UTF-8 is none that a plan could use.
                let Ok(name) = entry.file_name().to_str() else {
                    continue;
                };
                if name == "." || name == ".." || names.contains_key(name) {
                    continue;
                }
                let kind = match look(&dir, name)? {
                    Found::Nothing => continue,
                    Found::Hidden => None,
                    Found::Directory => Some(EntryKind::Directory),
                    Found::Other(kind) => Some(kind),
                };
                names.insert(name.to_owned(), kind);
                if names.len() >= ENTRIES_MAX {
                    break;
                }
            }
        }
        let shown = names.into_iter().filter_map(|(name, kind)| {
            let kind = kind?;
            Some(Entry { name, kind })
        });
        Ok(shown.collect())
    }
}

/// Goes one name down: the directories that merge there, or what else stands there.
fn step(dirs: &[OwnedFd], name: &str) -> io::Result<(Vec<OwnedFd>, Option<EntryKind>)> {
    let mut out = Vec::new();
    for dir in dirs {
        match look(dir, name)? {
            Found::Nothing => {}
            Found::Hidden => break,
            Found::Other(_) if !out.is_empty() => break,
            Found::Other(kind) => return Ok((Vec::new(), Some(kind))),
            Found::Directory => {
                let found = open_directory(dir, name)?;
                let is_last = is_opaque(&found);
                out.push(found);
                if is_last {
                    break;
                }
            }
        }
    }
    Ok((out, None))
}

fn look(dir: &OwnedFd, name: &str) -> io::Result<Found> {
    let stat: Stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(Found::Nothing),
        Err(errno) => return Err(errno.into()),
    };
    let file_type = FileType::from_raw_mode(stat.st_mode);
    Ok(if file_type == FileType::Directory {
        Found::Directory
    } else if file_type == FileType::CharacterDevice && stat.st_rdev == 0 {
        Found::Hidden
    } else if file_type == FileType::RegularFile {
        Found::Other(EntryKind::File)
    } else {
        Found::Other(EntryKind::Other)
    })
}

fn times_of(stat: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or_default(),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

fn is_opaque(dir: &OwnedFd) -> bool {
    OPAQUE.iter().any(|name| {
        let mut value = [0; 8];
        rustix::fs::fgetxattr(dir, *name, &mut value).is_ok_and(|n| &value[..n] == b"y")
    })
}

fn open_directory(dir: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

fn reopened(dir: &OwnedFd) -> io::Result<OwnedFd> {
    dir.as_fd().try_clone_to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn names(layers: &Layers, dir: &str) -> String {
        let entries = layers.list(dir).unwrap();
        let shown = entries.iter().map(|e| match e.kind {
            EntryKind::File => e.name.clone(),
            EntryKind::Directory => format!("{}/", e.name),
            EntryKind::Other => format!("{}@", e.name),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(path)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    #[test]
    fn lower_layers_show_through_and_links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let [top, low] = ["top", "low"].map(|n| place.path().join(n));
        for file in ["both/a", "both/b", "only/deep/c", "was-file"] {
            write(&low.join(file), "low");
        }
        write(&top.join("both/a"), "top");
        fs::create_dir(top.join("was-file")).unwrap();
        symlink(place.path(), low.join("link")).unwrap();
        let layers = Layers::open([top.as_path(), low.as_path()]).unwrap();
        assert_eq!(names(&layers, ""), "both/ link@ only/ was-file/");
        assert_eq!(names(&layers, "both"), "a b");
        assert_eq!(names(&layers, "only/deep"), "c");
        assert_eq!(names(&layers, "link"), "");
        assert_eq!(names(&layers, "was-file"), "");
        let text = |path: &str| layers.text(path).unwrap();
        assert_eq!(text("both/a").as_deref(), Some("top"));
        assert_eq!(text("both/b").as_deref(), Some("low"));
        assert_eq!(text("link/low/both/a"), None);
        assert_eq!(text("only/deep"), None);
        assert_eq!(text("nowhere/x"), None);
    }

    #[test]
    fn it_is_planted_in_the_topmost_layer_and_never_through_a_link() {
        let place = tempfile::tempdir().unwrap();
        let [top, low] = ["top", "low"].map(|n| place.path().join(n));
        write(
            &low.join("Cargo.toml"),
            "[package]\nname = \"a\"\nedition = \"2024\"\n",
        );
        write(&low.join("tests/it.rs"), "");
        fs::create_dir(&top).unwrap();
        let layers = Layers::open([top.as_path(), low.as_path()]).unwrap();
        let runner = Runner::recognise("cargo test").unwrap();
        let plan = layers.plan(&runner, "ab12").unwrap().unwrap();
        let planted = &plan.files[0];
        assert_eq!(planted.path, "tests/final_round_clean.rs");
        layers.plant(planted).unwrap();
        assert!(top.join(&planted.path).is_file() && !low.join(&planted.path).exists());
        assert!(layers.plant(planted).is_err(), "nothing is written twice");

        fs::remove_dir_all(top.join("tests")).unwrap();
        symlink(low.join("tests"), top.join("tests")).unwrap();
        assert!(layers.plant(planted).is_err());
        assert!(!low.join(&planted.path).exists());
        assert!(layers.plan(&runner, "ab12").unwrap().is_err());
    }
}
