//! What is known before a launch is what holds in it, word for word.

use cto_sandbox::{
    Access, Bind, Class, Confinement, LaunchRequest, Launcher, Limits, Means, Recorder, Root,
};

use crate::support::{by, fallback, has_namespaces, has_root, launcher, provider, script, try_run};
use crate::workshop::Workshop;

/// Compares all but the survivors, which nobody can foresee.
#[track_caller]
fn assert_foreseen(launcher: &Launcher, request: &LaunchRequest, workshop: &Workshop) -> Class {
    let foreseen = launcher.foresee(workshop.path()).unwrap().of(request);
    let seen = try_run(launcher, request).unwrap().outcome.confinement;
    let expected = Confinement {
        survivors: seen.survivors.clone(),
        ..foreseen
    };
    assert_eq!(seen, expected);
    seen.class
}

fn limited(mut request: LaunchRequest) -> LaunchRequest {
    request.limits = Limits {
        processes: Some(300),
        open_files: Some(256),
        ..request.limits
    };
    if let Root::Built(_) = request.root {
        request.tree.memory_bytes = Some(1 << 30);
        request.recorder = Recorder::On;
    }
    request
}

#[test]
fn a_native_launch_is_held_by_what_was_foreseen() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::new();
    let class = assert_foreseen(&launcher(), &limited(workshop.script("true")), &workshop);
    assert_eq!(class, Class::Full);
    assert_eq!(cto_sandbox::probe().class, Class::Full);
    assert_foreseen(&launcher(), &script("true"), &workshop);
    // What root cannot show to another user lowers the class, and that is foreseen too.
    let mut request = workshop.script("true");
    request.binds.push(Bind {
        from: "/sys/kernel/mm".into(),
        at: "/opt/mm".into(),
        access: Access::Writable,
    });
    if has_root() {
        assert_eq!(
            assert_foreseen(&launcher(), &request, &workshop),
            Class::Process
        );
    }
}

#[test]
fn so_is_one_without_namespaces_or_without_anything() {
    let workshop = Workshop::new();
    assert_foreseen(&fallback(), &limited(script("true")), &workshop);
    let class = assert_foreseen(&by(Means::None), &limited(script("true")), &workshop);
    assert_eq!(class, Class::None);
    let mut request = workshop.script("true");
    let space = workshop.space();
    request.binds[0].at.clone_from(&space);
    request.cwd = space;
    assert_eq!(
        assert_foreseen(&by(Means::Weak), &request, &workshop),
        Class::Weak
    );
}

#[test]
fn so_is_one_by_bwrap() {
    let found = provider("CTO_TEST_BWRAP", "/usr/bin/bwrap").filter(|_| has_namespaces());
    let Some(program) = found else { return };
    let workshop = Workshop::new();
    let request = limited(workshop.script("true"));
    let class = assert_foreseen(&by(Means::Bwrap { program }), &request, &workshop);
    assert_eq!(class, Class::Full);
}
