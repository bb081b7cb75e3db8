//! The mounts of a request.

use std::fs;
use std::path::Path;

use cto_sandbox::{Access, Bind, End, LaunchRequest, LayerName, Overlay};

use crate::support::{fallback, has_namespaces, launcher, run, script, try_run};

/// Makes files from `name=text` pairs.
#[expect(
    clippy::disallowed_methods,
    reason = "test data needs no atomic writer"
)]
fn fill(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Lists a folder as `name=text`, without looking at links or devices.
fn show(folder: &Path) -> String {
    let mut list: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| match entry.file_type().unwrap().is_file() {
            true => format!(
                "{}={}",
                entry.file_name().display(),
                fs::read_to_string(entry.path()).unwrap().trim()
            ),
            false => format!("{}?", entry.file_name().display()),
        })
        .collect();
    list.sort();
    list.join(" ")
}

fn in_folder(folder: &Path, text: &str) -> LaunchRequest {
    let mut request = script(text);
    request.cwd = folder.to_path_buf();
    request
}

#[test]
fn a_read_only_path_cannot_be_written() {
    if !has_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fill(
        folder.path(),
        &[
            ("oracle/judge", "fair"),
            ("single", "alone"),
            ("free", "old"),
        ],
    );
    let attempts = "
        echo new >free && cat oracle/judge single
        echo bribed >oracle/judge; rm -f oracle/judge; touch oracle/more; mv oracle other; echo x >single
        mount -o remount,rw,bind \"$PWD/oracle\"; umount oracle; unshare -Urm umount oracle; chmod 777 oracle/judge";
    let mut request = in_folder(folder.path(), attempts);
    request.binds = ["oracle", "single"]
        .map(|name| Bind::read_only(folder.path().join(name)))
        .into();
    let ran = run(&request);
    assert_eq!(ran.stdout, "fairalone", "{ran:?}");
    assert_eq!(show(&folder.path().join("oracle")), "judge=fair", "{ran:?}");
    assert_eq!(
        show(folder.path()),
        "free=new oracle? single=alone",
        "{ran:?}"
    );
    assert!(ran.outcome.confinement.in_force(LayerName::ReadOnlyPaths));
}

#[test]
fn a_folder_is_seen_at_another_place_and_written_there() {
    let folder = tempfile::tempdir().unwrap();
    fill(
        folder.path(),
        &[("here/a", "1"), ("there/b", "2"), ("kept/c", "3")],
    );
    let mut request = in_folder(
        folder.path(),
        "ls here there kept; echo 4 >here/new; echo 5 >kept/c",
    );
    let bind = |from: &str, at: &str, access| Bind {
        from: folder.path().join(from),
        at: folder.path().join(at),
        access,
    };
    request.binds = vec![
        bind("there", "here", Access::Writable),
        // The source is what was there before anything was mounted.
        bind("here", "there", Access::Writable),
        bind("kept", "kept", Access::ReadOnly),
    ];
    let refused = try_run(&fallback(), &request).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "process confinement is not available here: mounts need a namespace of their own, and the kernel refuses it"
    );
    if !has_namespaces() {
        return;
    }
    let ran = run(&request);
    assert_eq!(ran.stdout, "here:\nb\n\nkept:\nc\n\nthere:\na\n", "{ran:?}");
    assert_eq!(show(&folder.path().join("there")), "b=2 new=4", "{ran:?}");
    assert_eq!(show(&folder.path().join("here")), "a=1", "{ran:?}");
    assert_eq!(show(&folder.path().join("kept")), "c=3", "{ran:?}");
}

#[test]
fn without_namespaces_a_read_only_path_is_reported_as_not_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let mut request = in_folder(folder.path(), "true");
    request.binds = vec![Bind::read_only(folder.path())];
    let outcome = try_run(&fallback(), &request).unwrap().outcome;
    assert!(!outcome.confinement.in_force(LayerName::ReadOnlyPaths));
}

#[test]
fn a_read_only_path_that_is_missing_is_an_error_by_name() {
    if !has_namespaces() {
        return;
    }
    let mut request = script("true");
    request.binds = vec![Bind::read_only("/no/such/oracle")];
    let error = try_run(&launcher(), &request).unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not mount `/no/such/oracle` inside"
    );
}

#[test]
fn writes_land_in_the_upper_directory_and_the_lower_stays() {
    if !has_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Names that mount options could not carry as text.
    let part = |name: &str| folder.path().join(format!("{name}, a:b\\c"));
    for name in ["lower", "upper", "work", "at"] {
        fs::create_dir(part(name)).unwrap();
    }
    fill(
        &part("lower"),
        &[
            ("kept", "1"),
            ("changed", "1"),
            ("removed", "1"),
            ("frozen/test", "1"),
        ],
    );
    let text = "cat kept; echo 2 >changed; rm removed; echo 2 >made; echo 2 >frozen/test; ls";
    let mut request = in_folder(&part("at"), text);
    request.overlay = Some(Overlay {
        lowers: vec![part("lower")],
        upper: part("upper"),
        work: part("work"),
        at: part("at"),
    });
    request.binds = vec![Bind::read_only(part("at").join("frozen"))];
    let ran = run(&request);
    assert_eq!(ran.outcome.end, End::Exited(0), "{ran:?}");
    assert_eq!(ran.stdout, "1changed\nfrozen\nkept\nmade\n", "{ran:?}");
    assert!(ran.stderr.contains("Read-only file system"), "{ran:?}");
    assert_eq!(show(&part("lower")), "changed=1 frozen? kept=1 removed=1");
    assert_eq!(show(&part("lower").join("frozen")), "test=1");
    // A whiteout is a device, so it is no file.
    assert_eq!(show(&part("upper")), "changed=2 made=2 removed?");
    assert_eq!(show(&part("at")), "");
    make_removable(&part("work"));
}

#[test]
fn an_overlay_with_a_missing_part_is_an_error_by_name() {
    if !has_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut request = script("true");
    let place = || folder.path().to_path_buf();
    request.overlay = Some(Overlay {
        lowers: vec![place()],
        upper: "/no/such/upper".into(),
        work: place(),
        at: place(),
    });
    let error = try_run(&launcher(), &request).unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not open overlay directory `/no/such/upper`"
    );
}

fn make_removable(work: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let inner = work.join("work");
    fs::set_permissions(inner, fs::Permissions::from_mode(0o700)).unwrap();
}
