//! What is in a root from nothing, and what is not.

use std::os::unix::fs::MetadataExt;

use cto_sandbox::{Access, Bind, Class, End, LayerName, Root, Shown};

use crate::support::{fallback, has_namespaces, has_root, run, try_run};
use crate::workshop::Workshop;

#[test]
fn only_what_was_named_exists_inside() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::new();
    let ran = workshop.run_script("ls / | grep -v ^lib | xargs; ls /dev | xargs; id -un; hostname");
    assert_eq!(
        ran.stdout,
        "bin case dev etc proc sbin tmp usr\nfd full null ptmx pts random shm stderr stdin stdout tty urandom zero\n\
         user\nlocalhost\n",
        "{ran:?}"
    );
}

#[test]
fn every_layer_of_the_root_is_in_force_and_said() {
    if !has_namespaces() {
        return;
    }
    let confinement = Workshop::new().run_script("true").outcome.confinement;
    assert_eq!(confinement.class, Class::Full);
    for name in LayerName::ALL {
        let later = matches!(name, LayerName::Recorder | LayerName::EgressForwarder);
        let unasked = *name == LayerName::ResourceLimits;
        let held = confinement.in_force(*name);
        assert_eq!(held, !later && !unasked, "{name} {confinement:?}");
    }
}

#[test]
fn what_the_command_makes_belongs_to_the_harness_outside() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::new();
    let ran = workshop.run_script("echo made >file; stat -c %U file; mkdir -m 700 folder; id -u");
    assert_ne!(ran.stdout.lines().last(), Some("0"));
    assert!(ran.stdout.starts_with("user\n"), "{ran:?}");
    let me = rustix::process::geteuid().as_raw();
    for name in ["file", "folder"] {
        let made = std::fs::metadata(workshop.space().join(name)).unwrap();
        assert_eq!(made.uid(), me, "{name}");
    }
}

#[test]
fn what_is_shown_is_read_only_also_inside_the_workspace() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::new();
    std::fs::create_dir(workshop.space().join("frozen")).unwrap();
    let mut request =
        workshop.script("touch frozen/x; touch /opt/shown/x; cat /opt/shown/secret; ls frozen");
    request.binds.push(Bind {
        from: workshop.outside(),
        at: "/case/space/frozen".into(),
        access: Access::ReadOnly,
    });
    let Root::Built(root) = &mut request.root else {
        unreachable!("the workshop builds its root")
    };
    root.read_only.push(Shown {
        from: workshop.outside(),
        at: "/opt/shown".into(),
    });
    let ran = run(&request);
    assert_eq!(ran.stdout, "untouchedsecret\n", "{ran:?}");
    assert_eq!(
        ran.stderr.matches("Read-only file system").count(),
        2,
        "{ran:?}"
    );
    assert_eq!(ran.outcome.end, End::Exited(0));
}

#[test]
fn a_place_must_exist_below_a_bind_and_may_not_be_a_link() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::new();
    std::os::unix::fs::symlink("/etc", workshop.space().join("link")).unwrap();
    let with = |at: &str| {
        let mut request = workshop.script("true");
        request.binds.push(Bind {
            from: workshop.outside(),
            at: at.into(),
            access: Access::ReadOnly,
        });
        workshop.error(&request)
    };
    for at in [
        "/case/space/missing",
        "/case/space/link",
        "/case/space/link/below",
    ] {
        assert_eq!(with(at), format!("could not mount `{at}` inside"));
    }
    assert_eq!(
        with("/case/../etc"),
        "invalid launch request: `/case/../etc` is no place inside a root"
    );
    assert!(!workshop.space().join("missing").exists());
}

#[test]
fn what_is_missing_is_an_error_by_name() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::new();
    let mut request = workshop.script("true");
    let Root::Built(root) = &mut request.root else {
        unreachable!("the workshop builds its root")
    };
    root.read_only.push(Shown::here("/no/such/place"));
    assert_eq!(
        workshop.error(&request),
        "could not open `/no/such/place` to show it inside"
    );
}

#[test]
fn without_namespaces_nothing_is_started() {
    let workshop = Workshop::new();
    let error = try_run(&fallback(), &workshop.script("touch ran")).unwrap_err();
    assert!(error.to_string().contains("not available"), "{error}");
    assert!(!workshop.space().join("ran").exists());
}

#[test]
fn root_becomes_the_user_that_was_asked_for() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::new();
    let mut request = workshop.script("id -u; touch made");
    request.run_as = Some(61_000);
    let me = rustix::process::geteuid().as_raw();
    let seen = if me == 0 { 61_000 } else { me };
    assert_eq!(run(&request).stdout, format!("{seen}\n"));
    request.run_as = Some(0);
    assert_eq!(
        workshop.error(&request),
        "invalid launch request: to run as uid 0 is no drop of privileges"
    );
}

#[test]
fn owners_that_cannot_be_changed_leave_uid_0_and_no_full_class() {
    if !has_namespaces() || !has_root() {
        return;
    }
    let workshop = Workshop::new();
    let mut request = workshop.script("id -u; echo 1 >/proc/sys/vm/drop_caches; cat /etc/shadow");
    // A file system of the kernel, on which owners are what they are.
    request.binds.push(Bind {
        from: "/sys/kernel/mm".into(),
        at: "/opt/mm".into(),
        access: Access::Writable,
    });
    let ran = run(&request);
    assert_eq!(ran.stdout, "0\n", "{ran:?}");
    assert!(ran.stderr.contains("Read-only file system"), "{ran:?}");
    assert!(ran.stderr.contains("No such file"), "{ran:?}");
    let confinement = &ran.outcome.confinement;
    assert_eq!(confinement.class, Class::Process);
    assert!(!confinement.in_force(LayerName::UnprivilegedUid));
    let layer = confinement
        .layers
        .iter()
        .find(|l| l.name == LayerName::UnprivilegedUid);
    assert!(
        layer
            .unwrap()
            .detail
            .contains("could not be shown to another user"),
        "{layer:?}"
    );
}
