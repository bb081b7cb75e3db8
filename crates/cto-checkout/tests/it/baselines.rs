//! The cache of baselines: written once, checked when used, built anew when touched.

use std::fs::{self, File, FileTimes};
use std::path::Path;

use cto_checkout::{
    Baseline, BaselineCache, Freshness, ImportCaps, WorkingCopy, git_version, import,
};

use crate::stage::{chmod, entries, file, put};

struct Shelf {
    dir: tempfile::TempDir,
    cache: BaselineCache,
}

impl Shelf {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in [("a", "1\n"), ("d/b", "2\n"), ("d/e/c", "3\n")] {
            put(&dir.path().join("source").join(path), content.as_bytes());
        }
        let cache = BaselineCache::at(dir.path().join("cache/baselines"));
        Self { dir, cache }
    }

    fn ensure(&self) -> Baseline {
        let source = self.dir.path().join("source");
        self.cache
            .ensure_dir(&source, &ImportCaps::default())
            .unwrap()
    }
}

#[test]
fn a_tree_is_written_once_and_checked_afterwards() {
    let shelf = Shelf::new();
    let first = shelf.ensure();
    let second = shelf.ensure();
    assert_eq!(first.freshness, Freshness::Written);
    assert_eq!(second.freshness, Freshness::Checked);
    assert_eq!((first.tree_id, first.root), (second.tree_id, second.root));
    assert_eq!(
        shelf.cache.get(&first.tree_id).unwrap().manifest,
        first.manifest
    );
}

#[test]
fn the_same_tree_from_memory_is_the_same_baseline() {
    let shelf = Shelf::new();
    let from_disk = shelf.ensure();
    let rows = [file("d/e/c", "3\n"), file("a", "1\n"), file("d/b", "2\n")];
    let from_memory = shelf
        .cache
        .ensure_entries(&entries(&rows), &ImportCaps::default())
        .unwrap();
    assert_eq!(from_memory.freshness, Freshness::Checked);
    assert_eq!(from_memory.root, from_disk.root);
}

#[test]
fn a_changed_source_is_another_baseline() {
    let shelf = Shelf::new();
    let first = shelf.ensure();
    put(&shelf.dir.path().join("source/a"), b"other\n");
    let second = shelf.ensure();
    assert_eq!(second.freshness, Freshness::Written);
    assert_ne!(first.tree_id, second.tree_id);
}

fn set_times_like(path: &Path, model: &Path) {
    let times = fs::metadata(model).unwrap();
    let times = FileTimes::new()
        .set_accessed(times.accessed().unwrap())
        .set_modified(times.modified().unwrap());
    File::open(path).unwrap().set_times(times).unwrap();
}

#[test]
fn a_touched_baseline_is_built_anew() {
    let tampers: [fn(&Baseline); 16] = [
        |baseline| put(&baseline.root.join("a"), b"x\n"),
        |baseline| put(&baseline.root.join("a"), b"1\n"),
        |baseline| put(&baseline.root.join("extra"), b""),
        |baseline| put(&baseline.root.join("d/e/extra"), b""),
        |baseline| fs::create_dir(baseline.root.join("d/empty")).unwrap(),
        |baseline| chmod(&baseline.root.join("d"), 0o700),
        |baseline| {
            let (old, new) = (baseline.root.join("a"), baseline.root.join("extra"));
            put(&new, b"1\n");
            set_times_like(&new, &old);
            fs::rename(new, old).unwrap();
            set_times_like(&baseline.root, &baseline.root.join("a"));
        },
        |baseline| {
            let (old, kept) = (baseline.root.join("d"), baseline.root.join("kept"));
            fs::rename(&old, &kept).unwrap();
            put(&old.join("b"), b"2\n");
            put(&old.join("e/c"), b"3\n");
            fs::remove_dir_all(kept).unwrap();
        },
        |baseline| fs::remove_file(baseline.root.join("d/b")).unwrap(),
        |baseline| chmod(&baseline.root.join("d/b"), 0o755),
        |baseline| fs::remove_dir_all(&baseline.root).unwrap(),
        |baseline| put(&baseline.root.parent().unwrap().join("manifest"), b"junk"),
        |baseline| {
            let record = baseline.root.parent().unwrap().join("manifest");
            let bytes = fs::read(&record).unwrap();
            put(&record, &bytes[..bytes.len() / 2]);
        },
        |baseline| {
            let record = baseline.root.parent().unwrap().join("manifest");
            let text = fs::read_to_string(&record).unwrap();
            put(&record, text.replace("100644", "100755").as_bytes());
        },
        |baseline| put(&baseline.root.parent().unwrap().join("stamps"), b"junk"),
        |baseline| fs::remove_file(baseline.root.parent().unwrap().join("stamps")).unwrap(),
    ];
    for (number, tamper) in tampers.iter().enumerate() {
        let shelf = Shelf::new();
        let first = shelf.ensure();
        tamper(&first);
        assert!(shelf.cache.get(&first.tree_id).is_none(), "tamper {number}");
        let second = shelf.ensure();
        assert_eq!(second.freshness, Freshness::Written, "tamper {number}");
        assert_eq!(fs::read(second.root.join("a")).unwrap(), b"1\n");
        assert!(!second.root.join("extra").exists());
        assert_eq!(shelf.ensure().freshness, Freshness::Checked);
    }
}

#[test]
fn of_eight_at_once_one_writes_and_all_can_use_it() {
    let shelf = Shelf::new();
    let baselines: Vec<Baseline> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..8).map(|_| scope.spawn(|| shelf.ensure())).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap())
            .collect()
    });
    let written = baselines
        .iter()
        .filter(|baseline| baseline.freshness == Freshness::Written);
    assert_eq!(written.count(), 1);
    for (number, baseline) in baselines.iter().enumerate() {
        let copy =
            WorkingCopy::make(baseline, &shelf.dir.path().join(format!("copy-{number}"))).unwrap();
        assert!(copy.changes().unwrap().is_clean());
    }
}

#[test]
fn a_refused_tree_leaves_no_baseline() {
    let shelf = Shelf::new();
    put(&shelf.dir.path().join("source/.git/config"), b"");
    let source = shelf.dir.path().join("source");
    assert!(
        shelf
            .cache
            .ensure_dir(&source, &ImportCaps::default())
            .is_err()
    );
    assert!(!shelf.dir.path().join("cache").exists());
}

#[test]
fn a_copy_holds_what_the_baseline_holds() {
    let shelf = Shelf::new();
    let baseline = shelf.ensure();
    let copy = WorkingCopy::make(&baseline, &shelf.dir.path().join("copy")).unwrap();
    let again = import(
        copy.path(),
        &shelf.dir.path().join("again"),
        &ImportCaps::default(),
    )
    .unwrap();
    assert_eq!(again, *baseline.manifest);
    assert!(copy.changes().unwrap().is_clean());
    assert!(WorkingCopy::make(&baseline, copy.path()).is_err());
}

#[test]
fn git_states_its_version() {
    let version = git_version().unwrap();
    assert!(
        version.starts_with(|c: char| c.is_ascii_digit()),
        "{version}"
    );
}
