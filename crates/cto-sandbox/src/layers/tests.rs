use super::*;
use crate::facts::{BaseStep, Confiner, Refusal};
use crate::outcome::Proof;

const EPERM: i32 = 1;
const NOTHING: Survivors = Survivors::None {
    proof: Proof::NothingStarted,
};

fn full() -> Facts {
    Facts {
        class: Class::Process,
        fallback: None,
        network: Applied::Yes,
        loopback: Applied::Yes,
        ipc: Applied::Yes,
        uts: Applied::Yes,
        own_proc: Applied::Yes,
        read_only: Applied::Yes,
        no_capabilities: Applied::Yes,
        uid: 1000,
        inner: RootFacts::NOT_ASKED,
        by: Confiner::NATIVE,
        endpoint: Applied::NotAsked,
        memory_group: Applied::NotAsked,
    }
}

fn missing(facts: &Facts) -> String {
    confinement(facts, None, NOTHING)
        .layers
        .iter()
        .filter(|l| !l.in_force)
        .map(|l| l.name.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn every_layer_is_listed_once_and_explained() {
    for facts in [
        full(),
        Facts::group(Some(Fallback::Forced), 0, Applied::Yes),
    ] {
        let listed = confinement(&facts, None, NOTHING).layers;
        let names: Vec<_> = listed.iter().map(|l| l.name).collect();
        assert_eq!(names, LayerName::ALL);
        assert!(listed.iter().all(|l| !l.detail.is_empty()));
    }
}

#[test]
fn what_is_not_built_yet_is_never_in_force() {
    let later = "root_from_nothing landlock seccomp recorder egress_forwarder";
    assert_eq!(missing(&full()), later);
}

/// Everything in force that this version has.
fn whole() -> Facts {
    Facts {
        inner: RootFacts {
            root: Applied::Yes,
            landlock: LandlockFact {
                applied: Applied::Yes,
                abi: 7,
            },
            seccomp: Applied::Yes,
            dropped: Applied::NotAsked,
            recorder: Applied::NotAsked,
        },
        ..full()
    }
}

#[test]
fn whatever_is_missing_takes_the_full_class_away() {
    let class_of = |change: &dyn Fn(&mut Facts)| {
        let mut facts = whole();
        change(&mut facts);
        confinement(&facts, None, NOTHING).class
    };
    assert_eq!(class_of(&|_| {}), Class::Full);
    assert_eq!(missing(&whole()), "recorder egress_forwarder");
    for lost in [Applied::NotAsked, Applied::Refused { errno: EPERM }] {
        let changes: [&dyn Fn(&mut Facts); 8] = [
            &|f| f.inner.root = lost,
            &|f| f.inner.seccomp = lost,
            &|f| f.inner.landlock.applied = lost,
            &|f| f.network = lost,
            &|f| f.ipc = lost,
            &|f| f.uts = lost,
            &|f| f.own_proc = lost,
            &|f| f.no_capabilities = lost,
        ];
        for change in changes {
            assert_eq!(class_of(change), Class::Process);
        }
    }
    assert_eq!(class_of(&|f| f.uid = 0), Class::Process);
    assert_eq!(class_of(&|f| f.class = Class::Group), Class::Group);
    let absent = |errno| move |f: &mut Facts| f.inner.landlock.applied = Applied::Refused { errno };
    for errno in NO_LANDLOCK {
        assert_eq!(class_of(&absent(errno)), Class::Full);
    }
}

#[test]
fn a_refusal_takes_away_exactly_its_layer() {
    let refused = Applied::Refused { errno: EPERM };
    let later = "root_from_nothing landlock seccomp recorder egress_forwarder";
    let of = |change: fn(&mut Facts, Applied)| {
        let mut facts = full();
        change(&mut facts, refused);
        missing(&facts)
    };
    assert_eq!(
        of(|f, a| f.network = a),
        format!("network_namespace {later}")
    );
    assert_eq!(of(|f, a| f.ipc = a), format!("ipc_namespace {later}"));
    assert_eq!(of(|f, a| f.uts = a), format!("uts_namespace {later}"));
    assert_eq!(of(|f, a| f.own_proc = a), format!("own_proc {later}"));
    assert_eq!(
        of(|f, a| f.no_capabilities = a),
        format!("no_capabilities {later}")
    );
    assert_eq!(of(|f, _| f.uid = 0), format!("{later} unprivileged_uid"));
}

#[test]
fn without_namespaces_none_of_their_layers_is_in_force() {
    let refusal = Refusal {
        step: BaseStep::Create,
        errno: EPERM,
    };
    let facts = Facts::group(Some(Fallback::Refused(refusal)), 1000, Applied::Yes);
    assert_eq!(
        missing(&facts),
        "user_namespace mount_namespace pid_namespace network_namespace ipc_namespace uts_namespace own_proc \
         read_only_paths root_from_nothing landlock seccomp recorder egress_forwarder"
    );
    let first = &confinement(&facts, None, NOTHING).layers[0];
    assert!(first.detail.contains("create the namespaces"), "{first:?}");
}

#[test]
fn layer_names_are_frozen() {
    let names: Vec<_> = LayerName::ALL.iter().map(|n| n.as_str()).collect();
    assert_eq!(
        names.join(" "),
        "user_namespace mount_namespace pid_namespace network_namespace ipc_namespace uts_namespace own_proc \
         read_only_paths closed_descriptors built_environment no_new_privileges no_capabilities wall_clock output_cap \
         resource_limits root_from_nothing landlock seccomp recorder egress_forwarder unprivileged_uid"
    );
}
