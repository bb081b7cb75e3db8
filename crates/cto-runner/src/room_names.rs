//! Where the trees and rooms of a run lie: below names that tell neither the run nor what they are for.
//!
//! The kernel shows where a mount comes from to everybody who sees the mount. Code under test that could read there in
//! which round it runs would answer the planted test honestly and no other.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use cto_contract::ids::to_hex;
use cto_evidence::canonical::sha256;

use crate::clock;

/// In a work directory: a link whose last name is that of the rooms.
const NOTE: &str = "rooms";
/// Characters of a name.
const NAME_LENGTH: usize = 16;

/// The names of one run.
#[derive(Debug, Clone)]
pub(crate) struct RoomNames {
    root: PathBuf,
    /// Makes them out of what they stand for; nobody inside knows it.
    key: [u8; 16],
}

impl RoomNames {
    /// Chooses names. Nothing is made yet.
    pub(crate) fn choose(rooms: &Path) -> Result<Self, getrandom::Error> {
        let name = to_hex(&clock::random::<{ NAME_LENGTH / 2 }>()?);
        Ok(Self {
            root: rooms.join(name),
            key: clock::random()?,
        })
    }

    /// The directory of all of them.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the directory of all of them. It is noted first: whoever clears the work directory finds it.
    pub(crate) fn make(&self, work: &Path) -> io::Result<()> {
        symlink(&self.root, work.join(NOTE))?;
        let mut private = DirBuilder::new();
        private.mode(0o700).recursive(true).create(&self.root)
    }

    /// The place of something, by what it is for.
    pub(crate) fn place(&self, what: &str) -> PathBuf {
        let digest = sha256(&[&self.key, what.as_bytes()].concat());
        let name: String = digest.as_str().chars().take(NAME_LENGTH).collect();
        self.root.join(name)
    }

    /// The rooms of a work directory, if any were made: always one directory beside those of other runs.
    pub(crate) fn noted(work: &Path) -> Option<PathBuf> {
        let target = fs::read_link(work.join(NOTE)).ok()?;
        let name = target.file_name()?.to_str()?;
        let is_name = name.len() == NAME_LENGTH && name.bytes().all(|b| b.is_ascii_hexdigit());
        is_name.then(|| Some(work.parent()?.parent()?.join(NOTE).join(name)))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_nothing_and_is_found_again_from_the_work_directory() {
        let home = tempfile::tempdir().unwrap();
        let work = home.path().join("work/a-run");
        fs::create_dir_all(&work).unwrap();
        let names = RoomNames::choose(&home.path().join("rooms")).unwrap();
        assert_eq!(RoomNames::noted(&work), None);
        names.make(&work).unwrap();
        assert_eq!(RoomNames::noted(&work).as_ref(), Some(&names.root));
        let place = names.place("canary");
        assert_eq!(place, names.place("canary"));
        assert_ne!(place, names.place("checked"));
        let other = RoomNames::choose(&home.path().join("rooms")).unwrap();
        assert_ne!(place.file_name(), other.place("canary").file_name());
        assert_eq!(place.file_name().unwrap().len(), NAME_LENGTH);
    }

    #[test]
    fn a_note_leads_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        let work = home.path().join("work/a-run");
        fs::create_dir_all(&work).unwrap();
        for target in [
            "/",
            "..",
            "/etc",
            "../../harness-runs",
            "/etc/0123456789abcde/",
        ] {
            symlink(target, work.join(NOTE)).unwrap();
            assert_eq!(RoomNames::noted(&work), None, "{target}");
            fs::remove_file(work.join(NOTE)).unwrap();
        }
        symlink("/etc/0123456789abcdef", work.join(NOTE)).unwrap();
        let beside = home.path().join("rooms/0123456789abcdef");
        assert_eq!(RoomNames::noted(&work), Some(beside));
    }
}
