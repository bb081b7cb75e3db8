//! Directories of an agent's tree get other names, however large the tree is.

use std::fs;

use crate::place::write;
use crate::source::Source;

/// A repository with one file more than these below `src`.
fn source(files: usize) -> Source {
    let source = Source::new(&[("src/deep/er/leaf.txt", "leaf\n")]);
    for n in 0..files {
        let path = format!("src/part-{}/file-{n}.txt", n % 5);
        write(&source.repo().join(path), &format!("{n}\n"));
    }
    source.sh("git add -A && git commit -qm more");
    source.contract(
        "allowed_paths: [src/]\nverification_commands: [{run: 'test ! -e src/part-0 && test -e src/git/file-0.txt', must_fail_before: true}]\n",
    );
    source
}

const RENAMES: &str = r#"
git mv src/part-0 src/git && git commit -qm moved && test -z "$(git status --porcelain)"
mv -T src/part-1 src/mv
python3 -c 'import os; os.rename("src/part-2", "src/python"); os.rename("src/deep", "src/python/deep")'
if command -v node >/dev/null; then
    node -e 'const fs = require("fs"); fs.renameSync("src/part-3", "src/x"); fs.renameSync("src/x", "src/part-3")'
fi
"#;

#[track_caller]
fn check(files: usize, kinds: &[&str]) {
    let source = source(files);
    let (code, blockers, report) = source.work(RENAMES);
    assert_eq!((code, blockers.as_slice()), (0, &[][..]), "{report:#}");
    let events = fs::read_to_string(source.pack(&report).join("events.normalized.jsonl")).unwrap();
    assert!(
        kinds
            .iter()
            .any(|kind| events.contains(&format!(r#""workspace_kind":"{kind}""#))),
        "{files}"
    );
    source.export("change.patch");
    source.sh("git apply ../change.patch && ls src > ../after");
    let after = fs::read_to_string(source.place.path("after")).unwrap();
    assert_eq!(after, "git\nmv\npart-3\npart-4\npython\n", "{files}");
    source.sh("test -e src/python/deep/er/leaf.txt");
    source.sh(&format!("test $(find src -type f | wc -l) = {}", files + 1));
}

#[test]
fn an_agent_renames_directories_of_a_small_tree() {
    check(60, &["copy"]);
}

#[test]
fn an_agent_renames_directories_of_a_larger_tree() {
    // Where nothing can be mounted, or nobody can rename in an overlay, it has a copy.
    for files in [100, 1_500] {
        check(files, &["overlay", "copy"]);
    }
}
