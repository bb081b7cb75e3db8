//! A repository whose every setting, hook and attribute is a trap: nothing of it may ever be started.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use cto_checkout::{History, WorkingCopy};

use crate::repository_stage::{Owner, nothing};
use crate::stage::{chmod, put, run_git};

const HOOKS: [&str; 28] = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-prepare-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "post-index-change",
];

/// Everything the kernel says about a tree that reading does not change.
fn stats(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = vec![root.to_owned()];
    while let Some(path) = rest.pop() {
        let stat = fs::symlink_metadata(&path).unwrap();
        let line = format!(
            "{} {:o} {} {}.{} {}.{}",
            stat.ino(),
            stat.mode(),
            stat.size(),
            stat.mtime(),
            stat.mtime_nsec(),
            stat.ctime(),
            stat.ctime_nsec()
        );
        found.insert(path.display().to_string(), line);
        if stat.is_dir() {
            rest.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
    }
    found
}

fn trapped() -> Owner {
    let owner = Owner::with(&[
        ("a.txt", "1\n"),
        ("b.bin", "2\n"),
        ("d/c.txt", "3\n"),
        (
            ".gitattributes",
            "* filter=x diff=x merge=x\n*.txt text eol=crlf\n",
        ),
        (
            ".gitmodules",
            "[submodule \"s\"]\n\tpath = s\n\turl = ext::touch\n\tupdate = !touch\n",
        ),
        (".gitignore", "*.log\n"),
    ]);
    owner.commit(&[("a.txt", "4\n")]);
    let marker = owner.dir.path().join("marker");
    let script = owner.dir.path().join("evil.sh");
    let text = format!("#!/bin/sh\ntouch {}\ncat\n", marker.display());
    put(&script, text.as_bytes());
    chmod(&script, 0o755);
    let hooks = owner.dir.path().join("hooks");
    for name in HOOKS {
        for directory in [&hooks, &owner.repo.join(".git/hooks")] {
            put(&directory.join(name), text.as_bytes());
            chmod(&directory.join(name), 0o755);
        }
    }
    let evil = script.display();
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = {evil}\n\thooksPath = {hooks}\n\
         \tsshCommand = {evil}\n\tpager = {evil}\n\teditor = {evil}\n\taskPass = {evil}\n\tgitProxy = {evil}\n\
         \tuntrackedCache = true\n\tattributesFile = {evil}\n\texcludesFile = {evil}\n\talternateRefsCommand = {evil}\n\
         [filter \"x\"]\n\tclean = {evil}\n\tsmudge = {evil}\n\tprocess = {evil}\n\trequired = true\n\
         [diff]\n\texternal = {evil}\n[diff \"x\"]\n\ttextconv = {evil}\n\tcommand = {evil}\n\
         [merge \"x\"]\n\tdriver = {evil}\n\
         [alias]\n\tstatus = !{evil}\n\tls-tree = !{evil}\n\tcat-file = !{evil}\n\tpack-objects = !{evil}\n\
         [include]\n\tpath = {include}\n[includeIf \"gitdir:/\"]\n\tpath = {include}\n\
         [uploadpack]\n\tpackObjectsHook = {evil}\n[credential]\n\thelper = !{evil}\n\
         [remote \"origin\"]\n\turl = ext::{evil}\n\tpromisor = true\n\tuploadpack = {evil}\n\
         [extensions]\n\tpartialClone = origin\n[gpg]\n\tprogram = {evil}\n[status]\n\tsubmoduleSummary = true\n\
         [submodule]\n\trecurse = true\n[pack]\n\tpackSizeLimit = 1\n[index]\n\tversion = 4\n",
        hooks = hooks.display(),
        include = owner.dir.path().join("included").display(),
    );
    put(
        &owner.dir.path().join("included"),
        format!("[core]\n\tfsmonitor = {evil}\n").as_bytes(),
    );
    owner.put(".git/config", config);
    owner.put(".git/info/attributes", "[attr]y filter=x\n* filter=x y\n");
    // A repository below, with the same traps, that a status could look into.
    fs::create_dir(owner.repo.join("s")).unwrap();
    fs::create_dir(owner.repo.join("s/sub")).unwrap();
    let sub = owner.repo.join("s/sub");
    assert!(run_git(&sub, &["init", "-q"]).status.success());
    fs::copy(owner.repo.join(".git/config"), sub.join(".git/config")).unwrap();
    // The stat data that git knows is of no use any more: it would have to read, and so to filter.
    owner.put("a.txt", "4\n");
    owner.put("b.bin", "2\n");
    owner.put("new.txt", "5\n");
    fs::remove_file(&marker).unwrap_or_default();
    owner
}

#[test]
fn nothing_of_a_hostile_repository_is_started_or_touched() {
    let owner = trapped();
    let marker = owner.dir.path().join("marker");
    let before = stats(&owner.repo);
    let repository = owner.open();
    let first = repository.fingerprint().unwrap();
    let commit = repository.resolve(Some("main")).unwrap();
    repository.resolve(Some("HEAD~1")).unwrap();
    let source = repository
        .baseline(&commit, &owner.cache, &nothing)
        .unwrap();
    for history in [History::None, History::Ancestors] {
        let layer = repository
            .git_layer(&source, history, &owner.cache)
            .unwrap();
        let dest = owner.dir.path().join(format!("work-{history:?}"));
        let copy = WorkingCopy::make(&source.baseline, &dest).unwrap();
        layer.copy_into(&copy).unwrap();
        // What the agent gets carries none of it either.
        assert!(run_git(copy.path(), &["status"]).status.success());
    }
    source.lfs_pointers().unwrap();
    let second = repository.fingerprint_after(&first).unwrap();
    assert!(!marker.exists());
    assert_eq!(first.differences(&second), Vec::<String>::new());
    assert_eq!(first.digest(), second.digest());
    assert_eq!(stats(&owner.repo), before);
    let dirty: Vec<String> = first
        .dirty
        .iter()
        .map(|dirty| dirty.path.to_string())
        .collect();
    assert_eq!(dirty, ["new.txt", "s/sub"]);
    // The traps are real ones: plain git springs them.
    run_git(&owner.repo, &["status"]);
    assert!(marker.exists());
}

#[test]
fn a_graph_file_that_lies_is_not_believed() {
    let owner = Owner::with(&[("a", "1\n")]);
    owner.commit(&[("a", "2\n")]);
    owner.git(&["commit-graph", "write", "--reachable"]);
    let tree = owner.git(&["rev-parse", "HEAD^{tree}"]);
    let graph = owner.repo.join(".git/objects/info/commit-graph");
    let mut bytes = fs::read(&graph).unwrap();
    let id = owner.open().resolve(None).unwrap().tree;
    let at = bytes
        .windows(20)
        .position(|window| window == id.oid().as_bytes());
    bytes[at.unwrap()] ^= 1;
    chmod(&graph, 0o644);
    put(&graph, &bytes);
    assert_eq!(owner.open().resolve(None).unwrap().tree.to_string(), tree);
    owner.layer(History::Ancestors).unwrap();
}
