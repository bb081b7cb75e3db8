//! The `.git` an agent gets: complete, clean, and with nothing of the owner's but the baseline.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use cto_checkout::{
    BaselineCache, Freshness, GitLayer, History, ImportCaps, TreePath, UnsupportedKind, WorkingCopy,
};

use crate::repository_stage::{Owner, refusal};
use crate::stage::{git, put, run_git};
use crate::upper::{can_mount, run};

/// Copies the baseline and a `.git` for it to a place where an agent would work.
fn workspace(owner: &Owner, history: History) -> (GitLayer, WorkingCopy) {
    let (repository, source) = owner.baseline();
    let layer = repository
        .git_layer(&source, history, &owner.cache)
        .unwrap();
    let dest = owner.dir.path().join(format!("work-{history:?}"));
    let copy = WorkingCopy::make(&source.baseline, &dest).unwrap();
    layer.copy_into(&copy).unwrap();
    (layer, copy)
}

fn files(git_dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = vec![git_dir.to_owned()];
    while let Some(directory) = rest.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                rest.push(path);
            } else {
                let name = path
                    .strip_prefix(git_dir)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                let pack = name.starts_with("objects/pack/pack-");
                found.push(if pack {
                    format!("objects/pack/*.{}", name.rsplit('.').next().unwrap())
                } else {
                    name
                });
            }
        }
    }
    found.sort();
    found
}

fn history_of_three() -> (Owner, [String; 3]) {
    let owner = Owner::with(&[("a", "1\n"), ("d/b", "x\n")]);
    let first = owner.git(&["rev-parse", "HEAD"]);
    let second = owner.commit(&[("a", "2\n")]);
    let third = owner.commit(&[("a", "3\n"), ("later", "secret\n")]);
    owner.git(&["tag", "t"]);
    owner.git(&["branch", "other"]);
    owner.git(&["remote", "add", "origin", "https://example.invalid/x"]);
    owner.git(&["checkout", "-q", &second]);
    (owner, [first, second, third])
}

#[test]
fn without_history_there_is_one_commit_and_nothing_else() {
    let (owner, ids) = history_of_three();
    let (layer, copy) = workspace(&owner, History::None);
    let expected = [
        "HEAD",
        "config",
        "index",
        "info/attributes",
        "info/exclude",
        "objects/pack/*.idx",
        "objects/pack/*.pack",
        "refs/heads/main",
        "refs/heads/work",
    ];
    assert_eq!(files(&layer.root.join(".git")), expected);
    assert_eq!(files(&copy.path().join(".git")), expected);
    assert_eq!(fs::read_dir(&layer.root).unwrap().count(), 1);
    let at = copy.path();
    assert_eq!(git(at, &["status", "--porcelain"]), "");
    assert_eq!(
        git(at, &["log", "--format=%H %an %s %ct %P"]),
        format!("{} harness baseline 946684800 \n", layer.head)
    );
    assert_eq!(
        git(at, &["for-each-ref", "--format=%(refname)"]),
        "refs/heads/main\nrefs/heads/work\n"
    );
    assert_eq!(git(at, &["remote"]), "");
    git(at, &["fsck", "--strict", "--full"]);
    for id in &ids {
        assert!(!run_git(at, &["cat-file", "-e", id]).status.success());
    }
    assert_eq!(
        git(at, &["rev-parse", "HEAD^{tree}"]).trim(),
        owner.git(&["rev-parse", "HEAD^{tree}"])
    );
}

#[test]
fn with_ancestors_the_past_is_there_and_the_future_is_not() {
    let (owner, [first, second, third]) = history_of_three();
    let (layer, copy) = workspace(&owner, History::Ancestors);
    let at = copy.path();
    assert_eq!(layer.head.to_string(), second);
    assert_eq!(
        git(at, &["rev-list", "HEAD"]),
        format!("{second}\n{first}\n")
    );
    assert_eq!(git(at, &["status", "--porcelain"]), "");
    assert_eq!(
        git(at, &["for-each-ref", "--format=%(refname)"]),
        "refs/heads/main\nrefs/heads/work\n"
    );
    git(at, &["fsck", "--strict", "--full"]);
    let later = owner.git(&["rev-parse", &format!("{third}:later")]);
    for id in [third, later] {
        assert!(!run_git(at, &["cat-file", "-e", &id]).status.success());
    }
}

#[test]
fn an_agent_can_work_with_it() {
    let owner = Owner::with(&[("a", "1\n"), ("d/b", "x\n")]);
    let (_, copy) = workspace(&owner, History::None);
    let at = copy.path();
    put(&at.join("a"), b"2\n");
    put(&at.join("d/new"), b"y\n");
    assert_eq!(git(at, &["status", "--porcelain"]), " M a\n?? d/new\n");
    git(at, &["add", "-A"]);
    git(at, &["commit", "-q", "-m", "work"]);
    assert_eq!(git(at, &["status", "--porcelain"]), "");
    git(at, &["gc", "-q"]);
    git(at, &["checkout", "-q", "HEAD~1"]);
    assert_eq!(fs::read(at.join("a")).unwrap(), b"1\n");
    let changes = copy.changes().unwrap();
    assert!(changes.is_clean() && changes.has_scratch_git);
}

#[test]
fn conversions_make_nothing_look_changed() {
    let owner = Owner::empty();
    owner.commit(&[
        ("dos", "a\r\nb\r\n"),
        ("id", "$Id: x $\n"),
        ("x.bin", "pointer\n"),
    ]);
    owner.commit(&[(
        ".gitattributes",
        "* text=auto eol=crlf ident\n*.bin filter=lfs\n",
    )]);
    let (_, copy) = workspace(&owner, History::None);
    let at = copy.path();
    assert_eq!(git(at, &["status", "--porcelain"]), "");
    // Also when git reads the files.
    git(at, &["read-tree", "HEAD"]);
    assert_eq!(git(at, &["status", "--porcelain"]), "");
}

/// Git compares what the index says with what the kernel says, and names a file for which they differ without reading
/// it: so an answer of nothing means that a status reads nothing.
const COMPARE: &[&str] = &["diff-files", "--name-only"];

#[test]
fn the_index_fits_the_files_of_a_copy() {
    let owner = Owner::with(&[("a", "1\n"), ("d/b", "x\n")]);
    let (_, copy) = workspace(&owner, History::None);
    assert_eq!(git(copy.path(), COMPARE), "");
    put(&copy.path().join("a"), b"longer\n");
    assert_eq!(git(copy.path(), COMPARE), "a\n");
}

#[test]
fn the_index_fits_the_files_seen_through_an_overlay() {
    if !can_mount() {
        return;
    }
    let owner = Owner::with(&[("a", "1\n"), ("d/b", "x\n")]);
    let (repository, source) = owner.baseline();
    let layer = repository
        .git_layer(&source, History::None, &owner.cache)
        .unwrap();
    let dir = owner.dir.path();
    symlink(&layer.root, dir.join("top")).unwrap();
    symlink(&source.baseline.root, dir.join("below")).unwrap();
    for part in ["upper", "work", "merged"] {
        fs::create_dir(dir.join(part)).unwrap();
    }
    let script = format!(
        "mount -t overlay overlay -o lowerdir=top:below,upperdir=upper,workdir=work,userxattr merged && cd merged && \
         git {} && git status --porcelain && echo longer > a && git status --porcelain",
        COMPARE.join(" ")
    );
    let output = run("unshare", &["-Urm", "sh", "-c", &script], dir);
    cto_checkout::remove_tree(&dir.join("work")).unwrap();
    assert_eq!(
        (
            output.stdout.escape_ascii().to_string(),
            output.stderr.escape_ascii().to_string()
        ),
        (" M a\\n".to_owned(), String::new())
    );
}

#[test]
fn what_is_withheld_is_in_no_object() {
    let owner = Owner::with(&[("a", "1\n"), ("d/.env", "SECRET\n"), ("d/b", "x\n")]);
    let secret = owner.git(&["rev-parse", "HEAD:d/.env"]);
    let repository = owner.open();
    let commit = repository.resolve(None).unwrap();
    let hidden = |path: &TreePath| path.to_str() == Some("d/.env");
    let both = || {
        repository
            .baseline_and_git(&commit, &owner.cache, &hidden, History::None)
            .unwrap()
    };
    let (source, layer) = both();
    let again = both();
    assert_eq!(again.0.baseline.freshness, Freshness::Checked);
    assert_eq!(
        (again.1.freshness, again.1.head),
        (Freshness::Checked, layer.head)
    );
    assert_eq!(again.0.withheld, source.withheld);
    let copy = WorkingCopy::make(&source.baseline, &owner.dir.path().join("work")).unwrap();
    layer.copy_into(&copy).unwrap();
    assert_eq!(git(copy.path(), &["status", "--porcelain"]), "");
    git(copy.path(), &["fsck", "--strict", "--full"]);
    assert!(
        !run_git(copy.path(), &["cat-file", "-e", &secret])
            .status
            .success()
    );
    let shown = repository.git_layer(&source, History::Ancestors, &owner.cache);
    let (kind, detail) = refusal(shown.map(drop));
    assert_eq!(kind, UnsupportedKind::HistoryShowsWithheld);
    assert_eq!(detail, "the history holds `d/.env`, which is withheld");
}

#[test]
fn made_at_once_they_are_what_they_are_one_after_the_other() {
    for history in [History::None, History::Ancestors] {
        let (owner, _) = history_of_three();
        let (other, _) = history_of_three();
        let repository = owner.open();
        let commit = repository.resolve(None).unwrap();
        let (source, layer) = repository
            .baseline_and_git(&commit, &owner.cache, &|_| false, history)
            .unwrap();
        let (_, second) = other.baseline();
        let alone = other.layer(history).unwrap();
        assert_eq!(source.baseline.manifest, second.baseline.manifest);
        if history == History::None {
            assert_eq!(layer.head, alone.head);
        }
        let lists = [&layer, &alone].map(|layer| files(&layer.root.join(".git")));
        assert_eq!(lists[0], lists[1]);
        git(&layer.root, &["fsck", "--strict", "--full"]);
        // What was noted on the way is what is there afterwards.
        let again = repository
            .baseline(&commit, &owner.cache, &|_| false)
            .unwrap();
        assert_eq!(again.baseline.freshness, Freshness::Checked);
        let again = repository.git_layer(&again, history, &owner.cache).unwrap();
        assert_eq!(again.freshness, Freshness::Checked);
    }
}

#[test]
fn a_tree_that_can_not_be_written_leaves_nothing_of_its_git() {
    let owner = Owner::with(&[("a", "1\n"), ("d/b", "x\n")]);
    let blob = owner.git(&["rev-parse", "HEAD:d/b"]);
    let object = owner
        .repo
        .join(".git/objects")
        .join(&blob[..2])
        .join(&blob[2..]);
    fs::remove_file(object).unwrap();
    let repository = owner.open();
    let commit = repository.resolve(None).unwrap();
    let both = repository.baseline_and_git(&commit, &owner.cache, &|_| false, History::None);
    let (kind, detail) = refusal(both.map(drop));
    assert_eq!(kind, UnsupportedKind::MissingObjects);
    assert_eq!(detail, "the content of `d/b` is not there");
    let left: Vec<_> = fs::read_dir(owner.dir.path().join("home/baselines"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with(".lock-") && !name.starts_with(".listing-"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn an_empty_tree_has_a_layer_too() {
    let owner = Owner::empty();
    owner.commit_index();
    let (_, copy) = workspace(&owner, History::None);
    assert_eq!(git(copy.path(), &["status", "--porcelain"]), "");
    git(copy.path(), &["fsck", "--full"]);
}

#[test]
fn a_layer_is_made_once_and_made_anew_when_touched() {
    let owner = Owner::with(&[("a", "1\n")]);
    let layer = owner.layer(History::None).unwrap();
    assert_eq!(layer.freshness, Freshness::Written);
    assert_eq!(
        owner.layer(History::None).unwrap().freshness,
        Freshness::Checked
    );
    let tampers: [fn(&Path); 4] = [
        |git| put(&git.join("config"), b"[core]\n\tfsmonitor = evil\n"),
        |git| put(&git.join("hooks/post-checkout"), b"#!/bin/sh\n"),
        |git| fs::remove_file(git.join("index")).unwrap(),
        |git| fs::remove_dir_all(git).unwrap(),
    ];
    for (number, tamper) in tampers.iter().enumerate() {
        tamper(&layer.root.join(".git"));
        let again = owner.layer(History::None).unwrap();
        assert_eq!(again.freshness, Freshness::Written, "tamper {number}");
        assert!(!again.root.join(".git/hooks").exists());
        assert_eq!(
            owner.layer(History::None).unwrap().freshness,
            Freshness::Checked
        );
    }
}

#[test]
fn of_many_at_once_one_writes_and_all_can_use_it() {
    const HISTORY: History = History::None;
    let owner = Owner::with(&[("a", "1\n"), ("d/b", "2\n")]);
    let (repositories, cache) = (
        (0..6).map(|_| owner.open()).collect::<Vec<_>>(),
        &owner.cache,
    );
    let layers: Vec<GitLayer> = std::thread::scope(|scope| {
        let threads: Vec<_> = repositories
            .iter()
            .map(|repository| {
                scope.spawn(move || {
                    let commit = repository.resolve(None).unwrap();
                    let both = repository.baseline_and_git(&commit, cache, &|_| false, HISTORY);
                    both.unwrap().1
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let written = layers
        .iter()
        .filter(|layer| layer.freshness == Freshness::Written);
    assert_eq!(written.count(), 1);
    git(&layers[0].root, &["fsck", "--full"]);
}

#[test]
fn a_tree_that_comes_from_no_repository_gets_a_git_directory_to_work_with() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    put(&source.join("a"), b"1\n");
    put(&source.join("d/b"), b"x\n");
    put(&source.join("d/c"), b"1\n");
    std::os::unix::fs::symlink("a", source.join("link")).unwrap();
    let cache = BaselineCache::at(dir.path().join("cache"));
    let baseline = cache.ensure_dir(&source, &ImportCaps::default()).unwrap();
    let layer = GitLayer::of_baseline(&baseline, &cache).unwrap();
    assert_eq!(layer.freshness, Freshness::Written);
    let again = GitLayer::of_baseline(&baseline, &cache).unwrap();
    assert_eq!(again.freshness, Freshness::Checked);
    let copy = WorkingCopy::make(&baseline, &dir.path().join("work")).unwrap();
    layer.copy_into(&copy).unwrap();
    let at = copy.path();
    git(at, &["fsck", "--strict", "--full"]);
    assert_eq!(git(at, &["status", "--porcelain"]), "");
    assert_eq!(git(at, &["branch", "--show-current"]), "work\n");
    put(&at.join(".case/x/events"), b"state\n");
    put(&at.join("a"), b"2\n");
    assert_eq!(git(at, &["status", "--porcelain"]), " M a\n");
    git(at, &["add", "-A"]);
    git(at, &["commit", "-q", "-m", "work"]);
    assert_eq!(git(at, &["diff", "--name-only", "main"]), "a\n");
    assert_eq!(
        git(at, &["merge-base", "HEAD", "main"]).trim(),
        layer.head.to_string()
    );
    assert_eq!(
        git(at, &["log", "-1", "--format=%an <%ae>"]),
        "agent <agent@invalid>\n"
    );
}
