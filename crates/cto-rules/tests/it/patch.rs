//! The patch parser on what the real git writes.

#![expect(
    clippy::disallowed_methods,
    reason = "git runs here to have its word on every patch"
)]
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use cto_contract::text;
use cto_rules::patch::{MODE_GITLINK, parse, walk};
use proptest::prelude::*;

/// A throw-away repository.
struct Repo(PathBuf);

impl Drop for Repo {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn git(dir: &Path, args: &[&str], input: &[u8]) -> (bool, Vec<u8>) {
    let mut child = Command::new("git")
        .args([
            "-c",
            "core.autocrlf=false",
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env_remove("GIT_DIR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Git may stop reading when it has seen enough.
    let _fed = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    (output.status.success(), output.stdout)
}

impl Repo {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "cto-rules-patch-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let repo = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&repo.0).unwrap();
        repo.run(&["init", "-q"]);
        repo
    }

    fn run(&self, args: &[&str]) -> Vec<u8> {
        let (ok, out) = git(&self.0, args, b"");
        assert!(ok, "git {args:?}");
        out
    }

    fn path(&self, name: &[u8]) -> PathBuf {
        self.0.join(OsStr::from_bytes(name))
    }

    fn write(&self, name: &[u8], content: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn tree(&self) -> String {
        self.run(&["add", "-A", "-f"]);
        String::from_utf8(self.run(&["write-tree"]))
            .unwrap()
            .trim()
            .to_owned()
    }

    fn diff(&self, before: &str, after: &str) -> Vec<u8> {
        self.run(&[
            "diff",
            "--binary",
            "--full-index",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            before,
            after,
        ])
    }
}

fn change(before: impl Fn(&Repo), after: impl Fn(&Repo)) -> Vec<u8> {
    let repo = Repo::new();
    before(&repo);
    let first = repo.tree();
    after(&repo);
    let second = repo.tree();
    repo.diff(&first, &second)
}

fn show(patch: &[u8]) -> String {
    match parse(patch) {
        Err(e) => format!("error: {e}"),
        Ok(entries) => {
            let mode = |m: Option<u32>| m.map_or_else(|| "-".to_owned(), |m| format!("{m:o}"));
            let id = |o: &Option<String>| {
                o.as_ref()
                    .map_or_else(|| "-".to_owned(), |o| o[..4].to_owned())
            };
            let lines: Vec<String> = entries
                .iter()
                .map(|e| {
                    let path = text::one_line(&text::path_text(&e.path));
                    let link = e.symlink_target.as_ref().map_or_else(String::new, |t| {
                        format!(" -> {:?}", String::from_utf8_lossy(t))
                    });
                    let (from, to) = (mode(e.before_mode), mode(e.after_mode));
                    format!(
                        "{} {path} {from}..{to} {}..{}{link}",
                        e.change,
                        id(&e.before_oid),
                        id(&e.after_oid)
                    )
                })
                .collect();
            lines.join("\n")
        }
    }
}

#[test]
fn every_kind_of_change_is_read() {
    let before = |r: &Repo| {
        r.write(b"edit", b"one\ntwo\nthree\n");
        r.write(b"gone", b"x\n");
        r.write(b"gone-empty", b"");
        r.write(b"run", b"#!/bin/sh\n");
        r.write(b"run-edit", b"#!/bin/sh\n");
        r.write(b"no-newline", b"a\nb");
        r.write(b"bin", &[0, 1, 2, 3]);
        r.write(b"bin-gone", &[0; 300]);
        r.write(b"to-link", b"file\n");
        r.write(b"emptied", b"a\n");
        symlink("old/target", r.path(b"link")).unwrap();
        symlink("kept", r.path(b"from-link")).unwrap();
        r.write(b"dir/inside", b"x\n");
    };
    let after = |r: &Repo| {
        let executable = || std::fs::Permissions::from_mode(0o755);
        r.write(b"edit", b"one\n2\nthree\nfour\n");
        r.write(b"new", b"a\nb\n");
        r.write(b"new-empty", b"");
        r.write(b"new dir/sp ace", b"x\n");
        r.write(b"new dir/empty sp", b"");
        r.write("ünï".as_bytes(), b"x\n");
        r.write(b"quo\"te\\and\ttab\nline", b"x\n");
        r.write(b"quo\" te", b"x\n");
        r.write(b"latin\xe9", b"");
        r.write(b" b", b"x\n");
        r.write(b"a b/x a b", b"");
        for name in [
            &b"gone"[..],
            b"gone-empty",
            b"bin-gone",
            b"to-link",
            b"link",
            b"from-link",
        ] {
            std::fs::remove_file(r.path(name)).unwrap();
        }
        std::fs::set_permissions(r.path(b"run"), executable()).unwrap();
        r.write(b"run-edit", b"#!/bin/bash\n");
        std::fs::set_permissions(r.path(b"run-edit"), executable()).unwrap();
        r.write(b"no-newline", b"a\nc");
        r.write(b"bin", &[0, 1, 9, 3, 4, 5]);
        r.write(
            b"bin-new",
            &(0..=255).cycle().take(5000).collect::<Vec<u8>>(),
        );
        r.write(b"emptied", b"");
        symlink("edit", r.path(b"to-link")).unwrap();
        symlink("new/target\nof two lines", r.path(b"link")).unwrap();
        symlink("../../etc", r.path(b"new-link")).unwrap();
        r.write(b"from-link", b"now a file\n");
        std::fs::remove_dir_all(r.path(b"dir")).unwrap();
        r.write(b"dir", b"now a file\n");
    };
    let patch = change(before, after);
    insta::assert_snapshot!(show(&patch), @r#"
    added  b -..100644 -..587b
    added a b/x a b -..100644 -..e69d
    modified bin 100644..100644 eaf3..12c3
    deleted bin-gone 100644..- 106b..-
    added bin-new -..100644 -..a4f2
    added dir -..100644 -..3f89
    deleted dir/inside 100644..- 587b..-
    modified edit 100644..100644 4cb2..ea14
    modified emptied 100644..100644 7898..e69d
    type_changed from-link 120000..100644 1cff..3f89
    deleted gone 100644..- 587b..-
    deleted gone-empty 100644..- e69d..-
    added "latin\351" -..100644 -..e69d
    modified link 120000..120000 84c2..3718 -> "new/target\nof two lines"
    added new -..100644 -..422c
    added new dir/empty sp -..100644 -..e69d
    added new dir/sp ace -..100644 -..587b
    added new-empty -..100644 -..e69d
    added new-link -..120000 -..8c34 -> "../../etc"
    modified no-newline 100644..100644 0a20..817f
    added quo" te -..100644 -..587b
    added quo"te\and\ttab\nline -..100644 -..587b
    mode_changed run 100644..100755 -..-
    modified run-edit 100644..100755 1a24..a9bf
    type_changed to-link 100644..120000 f73f..8491 -> "edit"
    added ünï -..100644 -..587b
    "#);
}

#[test]
fn a_change_of_nothing_is_no_entry() {
    assert_eq!(parse(b""), Ok(Vec::new()));
}

#[test]
fn a_gitlink_is_seen() {
    let patch = change(
        |r| r.write(b"a", b"x\n"),
        |r| {
            r.run(&["init", "-q", "sub"]);
            git(
                &r.path(b"sub"),
                &["commit", "-q", "--allow-empty", "-m", "x"],
                b"",
            );
        },
    );
    let entries = parse(&patch).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (entries[0].path.as_slice(), entries[0].after_mode),
        (&b"sub"[..], Some(MODE_GITLINK))
    );
}

/// Files whose content imitates a patch, and names that imitate its headers.
static TRICKY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let imitation: &[u8] = b"diff --git a/evil b/evil\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n--- /dev/null\n+++ b/evil\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n";
    change(
        |r| {
            r.write(b"a", imitation);
            r.write(b"b", b"-- a/x\n++ b/x\nkeep\n");
            r.write(
                b"c",
                b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n",
            );
            r.write(b"bin", &[0, 159, 3, 10]);
        },
        |r| {
            r.write(b"a", &[b"first\n", imitation, imitation].concat());
            r.write(b"b", b"keep\n-- a/y\n++ b/y\n");
            r.write(
                b"c",
                b"1\n2\nthree\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\nseventeen\n18\n19\n20",
            );
            r.write(b"bin", &[0, 7, 3, 10, 13, 10]);
            r.write(b"d b/d", imitation);
            r.write(b"diff --git a", b"\n\n\n");
            r.write(b"crlf", b"one\r\ntwo\r\n\r\n");
            r.write(b"cr", b"one\rtwo\r");
            symlink("a", r.path(b"l")).unwrap();
        },
    )
});

#[test]
fn content_that_looks_like_a_header_fools_nobody() {
    let entries = parse(&TRICKY).unwrap();
    let names: Vec<String> = entries.iter().map(|e| text::path_text(&e.path)).collect();
    assert_eq!(
        names,
        [
            "a",
            "b",
            "bin",
            "c",
            "cr",
            "crlf",
            "d b/d",
            "diff --git a",
            "l"
        ]
    );
}

#[test]
fn added_lines_come_with_their_numbers() {
    let patch = change(
        |r| r.write(b"a", b"1\n2\n3\n"),
        |r| r.write(b"a", b"1\nnew\n2\n3\n++ last\n"),
    );
    let mut seen = Vec::new();
    walk(&patch, &mut |n, line| {
        seen.push((n, String::from_utf8_lossy(line).into_owned()))
    })
    .unwrap();
    let lines: Vec<&[u8]> = patch.split(|b| *b == b'\n').collect();
    assert_eq!(
        seen.iter().map(|(_, l)| l.as_str()).collect::<Vec<_>>(),
        ["new", "++ last"]
    );
    for (number, line) in &seen {
        assert_eq!(lines[number - 1], format!("+{line}").as_bytes());
    }
}

#[test]
fn what_is_not_understood_is_an_error() {
    let zero = "0".repeat(40);
    let (one, two) = ("1".repeat(40), "2".repeat(40));
    let check = |body: &str| {
        show(
            body.replace("ZERO", &zero)
                .replace("ONE", &one)
                .replace("TWO", &two)
                .as_bytes(),
        )
    };
    insta::assert_snapshot!(check("hello\n"), @"error: patch line 1: expected `diff --git`, found `hello`");
    insta::assert_snapshot!(check("diff --git a/x b/x"), @"error: patch line 1: the patch ends in the middle of a line");
    insta::assert_snapshot!(check("diff --git a/x b/y\n"), @"error: patch line 1: the two names of `diff --git` are not one path under `a/` and `b/`");
    insta::assert_snapshot!(check("diff --git x x\n"), @"error: patch line 1: the two names of `diff --git` are not one path under `a/` and `b/`");
    insta::assert_snapshot!(check("diff --cc x\n"), @"error: patch line 1: expected `diff --git`, found `diff --cc x`");
    insta::assert_snapshot!(check("diff --git a/x b/x\nsimilarity index 90%\nrename from x\nrename to y\n"), @"error: patch line 1: the modes of this file do not fit together");
    insta::assert_snapshot!(check("diff --git a/x b/x\nold mode 100644\nnew mode 100755\nrename from x\n"), @"error: patch line 4: renames and copies must be written as deletions and additions");
    insta::assert_snapshot!(check("diff --git a/x b/x\nindex ONE..TWO 100644\nBinary files a/x and b/x differ\n"), @"error: patch line 3: binary content is missing: the patch was not made with `--binary`");
    insta::assert_snapshot!(check("diff --git a/x b/x\nindex ONE..TWO 100644\n"), @"error: patch line 2: the content of the change is missing");
    insta::assert_snapshot!(check("diff --git a/x b/x\nnew file mode 100644\nindex ZERO..ONE\n"), @"error: patch line 3: the content of the change is missing");
    insta::assert_snapshot!(check("diff --git a/x b/x\nnew file mode 100664\n"), @"error: patch line 2: unknown file mode");
    insta::assert_snapshot!(check("diff --git a/x b/x\nold mode 100644\nnew mode 120000\n"), @"error: patch line 3: the modes of this file do not fit together");
    insta::assert_snapshot!(check("diff --git a/x b/x\nindex 123..456 100644\n"), @"error: patch line 2: the `index` line is not two full object ids and a mode");
    insta::assert_snapshot!(check("diff --git a/x b/x\nindex ONE..TWO 100644\n--- a/x\n+++ b/y\n"), @"error: patch line 4: the `+++` line does not name the file of `diff --git`");
    insta::assert_snapshot!(check("diff --git a/x b/x\nindex ONE..TWO 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n"), @"error: patch line 7: the patch ends where a line of the hunk must be");
    insta::assert_snapshot!(check("diff --git a/x b/x\nindex ONE..TWO 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n+c\n"), @"error: patch line 8: expected the next file, found `+c`");
    insta::assert_snapshot!(check("diff --git a/x b/x\nindex ONE..TWO 100644\nGIT binary patch\nliteral 3\nKcmZ\n\n"), @"error: patch line 5: expected base85 data, found `KcmZ`");
    let empty = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
    insta::assert_snapshot!(check(&format!("diff --git a/x b/x\nnew file mode 100644\nindex ZERO..{empty}\nGIT binary patch!\n")), @"error: patch line 4: expected the next file, found `GIT binary patch!`");
    let twice = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n".repeat(2);
    insta::assert_snapshot!(check(&twice), @"error: patch line 4: `x` occurs a second time");
}

/// Paths that `git apply` would touch, by its own reading of the patch.
fn paths_by_git(repo: &Repo, patch: &[u8]) -> Option<BTreeSet<Vec<u8>>> {
    let (ok, out) = git(&repo.0, &["apply", "--numstat", "-z"], patch);
    let path = |record: &[u8]| record.splitn(3, |b| *b == b'\t').nth(2).map(<[u8]>::to_vec);
    ok.then(|| out.split(|b| *b == 0).filter_map(path).collect())
}

/// A small generator: the walk over mutations is the same each time.
fn next(seed: &mut u64) -> usize {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap_or(0)
}

fn mutate(patch: &[u8], seed: &mut u64) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = patch
        .split_inclusive(|b| *b == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    for _ in 0..1 + next(seed) % 2 {
        let (at, other) = (next(seed) % lines.len(), next(seed) % lines.len());
        match next(seed) % 5 {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 => lines.truncate(at + 1),
            _ => {
                let byte = next(seed) % lines[at].len();
                lines[at][byte] = b"a/ +-@\\\"\n0"[next(seed) % 10];
            }
        }
    }
    lines.concat()
}

#[test]
fn git_would_touch_no_path_that_was_not_seen() {
    let repo = Repo::new();
    let mut seed = 7;
    let mut accepted = 0;
    for _ in 0..1000 {
        let mutated = mutate(&TRICKY, &mut seed);
        let Ok(entries) = parse(&mutated) else {
            continue;
        };
        accepted += 1;
        let ours: BTreeSet<Vec<u8>> = entries.into_iter().map(|e| e.path).collect();
        if let Some(theirs) = paths_by_git(&repo, &mutated) {
            assert!(
                theirs.is_subset(&ours),
                "{theirs:?}\n{ours:?}\n{}",
                String::from_utf8_lossy(&mutated)
            );
        }
    }
    assert!(accepted > 50, "only {accepted} mutations were accepted");
    let all = parse(&TRICKY)
        .unwrap()
        .into_iter()
        .map(|e| e.path)
        .collect();
    assert_eq!(paths_by_git(&repo, &TRICKY), Some(all));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _result = parse(&bytes);
    }

    #[test]
    fn no_mutation_makes_it_panic(seed in any::<u64>()) {
        let mut seed = seed;
        let _result = parse(&mutate(&TRICKY, &mut seed));
    }

    #[test]
    fn a_cut_patch_is_an_error_or_a_beginning(cut in any::<proptest::sample::Index>()) {
        let whole = parse(&TRICKY).unwrap();
        if let Ok(some) = parse(&TRICKY[..cut.index(TRICKY.len())]) {
            for (cut, full) in some.iter().zip(&whole) {
                prop_assert_eq!(&cut.path, &full.path);
            }
        }
    }
}
