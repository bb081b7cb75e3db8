//! What nobody will come back for: files under construction whose makers are gone (a draft of the database, of the key, of a
//! trust record, of the ledger's mark), and rooms whose work directory was taken away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::harness::Harness;
use crate::home::{Home, LEDGER_MARK_DRAFT};
use crate::room_names::RoomNames;

/// Removes it. What can't be removed is litter, not damage, and the next recovery tries again.
pub(super) fn sweep(harness: &Harness) {
    let home = &harness.home;
    for (dir, mark) in [
        (home.root(), "cto.db.new-"),
        (home.room(), LEDGER_MARK_DRAFT),
        (home.keys().as_path(), ".new-"),
        (harness.config.trust_dir().as_path(), ".tmp-"),
    ] {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_abandoned = name
                .to_str()
                .and_then(|name| maker(name, mark))
                .is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists());
            if is_abandoned {
                fs::remove_file(entry.path()).ok();
            }
        }
    }
    for rooms in rooms_without_work(home) {
        cto_checkout::remove_tree(&rooms).ok();
    }
}

/// Rooms that no work directory notes. They are noted before they are made and cleared before the note goes, so that rooms
/// which were there first and are noted nowhere afterwards are nobody's.
fn rooms_without_work(home: &Home) -> Vec<PathBuf> {
    let below = |dir: PathBuf| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let rooms = below(home.rooms());
    if rooms.is_empty() {
        return rooms;
    }
    let works = fs::read_dir(home.work());
    // Who can't list the work directories knows nothing of the rooms either.
    let Ok(works) = works.and_then(Iterator::collect::<io::Result<Vec<_>>>) else {
        return Vec::new();
    };
    let noted: Vec<PathBuf> = works
        .iter()
        .filter_map(|work| RoomNames::noted(&work.path()))
        .collect();
    rooms.into_iter().filter(|r| !noted.contains(r)).collect()
}

/// The process that a name tells of, after the mark of a draft.
fn maker(name: &str, mark: &str) -> Option<u32> {
    let (_, rest) = name.split_once(mark)?;
    rest.split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::{LEDGER_MARK_DRAFT, maker};

    #[test]
    fn a_draft_names_its_maker_and_nothing_else_does() {
        let database = "cto.db.new-";
        assert_eq!(maker("cto.db.new-12-0-ab-journal", database), Some(12));
        assert_eq!(maker("cto.db", database), None);
        assert_eq!(maker("cto.db-wal", database), None);
        assert_eq!(maker("cto.db.new-", database), None);
        assert_eq!(maker("ledger-mark.new-12", LEDGER_MARK_DRAFT), Some(12));
        assert_eq!(maker("ledger-mark", LEDGER_MARK_DRAFT), None);
        assert_eq!(maker(".new-7", ".new-"), Some(7));
        assert_eq!(maker("ab12.tmp-9", ".tmp-"), Some(9));
        assert_eq!(maker("ab12.json", ".tmp-"), None);
    }
}
