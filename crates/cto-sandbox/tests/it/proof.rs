//! What the pack can show of a sandbox: it was tried before the command started.

use cto_sandbox::{Access, Bind, CanaryAct, Expected};

use crate::support::{has_namespaces, run, run_script};
use crate::workshop::{WORKSPACE, Workshop};

#[test]
fn every_canary_failed_and_the_control_worked() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::new();
    let ran = workshop.run_script("ls -A");
    assert_eq!(ran.stdout, "", "the control leaves nothing behind");
    let proof = ran.outcome.proof.unwrap();
    assert!(
        proof.canaries.iter().all(|canary| canary.holds()),
        "{proof:?}"
    );
    let tried = |act: CanaryAct| {
        proof
            .canaries
            .iter()
            .filter(move |canary| canary.act == act)
    };
    let read: Vec<_> = tried(CanaryAct::Read)
        .map(|canary| canary.target.as_str())
        .collect();
    assert!(
        read.contains(&workshop.space().to_str().unwrap()),
        "{read:?}"
    );
    assert!(
        read.contains(&"/etc/shadow") && read.contains(&"/proc/1/root"),
        "{read:?}"
    );
    for act in [CanaryAct::Create, CanaryAct::Connect, CanaryAct::Unshare] {
        assert!(tried(act).all(|canary| canary.expected == Expected::Refused));
        assert_ne!(tried(act).count(), 0, "{act:?}");
    }
    let control: Vec<_> = tried(CanaryAct::Write).collect();
    assert_eq!(control.len(), 1);
    assert_eq!(
        (control[0].target.as_str(), control[0].errno),
        (WORKSPACE, None)
    );
}

#[test]
fn the_mount_table_is_what_the_command_sees() {
    if !has_namespaces() {
        return;
    }
    let ran = Workshop::new().run_script("cat /proc/self/mountinfo");
    let proof = ran.outcome.proof.unwrap();
    assert!(!proof.mounts_cut);
    assert_eq!(proof.mounts, ran.stdout.lines().collect::<Vec<_>>());
}

#[test]
fn a_workspace_that_cannot_be_written_starts_nothing() {
    if !has_namespaces() {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let workshop = Workshop::new();
    let closed = std::fs::Permissions::from_mode(0o500);
    std::fs::set_permissions(workshop.space(), closed).unwrap();
    let error = workshop.error(&workshop.script("true"));
    assert_eq!(
        error,
        "the sandbox does not hold: write `/case/space` was refused (error 13)"
    );
}

#[test]
fn a_workspace_below_another_bind_is_proved_too() {
    if !has_namespaces() {
        return;
    }
    let workshop = Workshop::new();
    let mut request = workshop.script("pwd");
    request.binds.insert(
        0,
        Bind {
            from: workshop.outside(),
            at: "/case".into(),
            access: Access::ReadOnly,
        },
    );
    std::fs::create_dir(workshop.outside().join("space")).unwrap();
    assert_eq!(run(&request).stdout, "/case/space\n");
}

#[test]
fn on_the_hosts_root_nothing_is_claimed() {
    assert_eq!(run_script("true").outcome.proof, None);
}
