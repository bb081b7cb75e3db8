//! What is shown of a machine, by the names of its directories.

use proptest::prelude::*;

use super::*;

fn path(text: &str) -> PathBuf {
    PathBuf::from(text)
}

/// A directory of programs and what lies beside it; `name>target` is a link.
fn facts(search_path: &[&str], beside: &[&str]) -> ReadFacts {
    let mut facts = ReadFacts {
        search_path: search_path.iter().map(|p| (path(p), path(p))).collect(),
        sockets: vec!["/opt/served/run/it.sock".into()],
        user_homes: vec!["/home/you".into()],
        harness: vec!["/home/you/.local/state/cto".into()],
        repository: Some("/srv/app".into()),
        ..ReadFacts::default()
    };
    for (named, real) in &facts.search_path {
        let Some((named, real)) = installation_of(named, real) else {
            continue;
        };
        let beside = beside.iter().filter_map(|entry| {
            let (name, target) = match entry.split_once('>') {
                Some((name, target)) => (name, path(target)),
                None => (*entry, real.join(entry)),
            };
            Some((sought().get(name).copied()?, target))
        });
        facts.installations.push(Installation {
            named: named.to_owned(),
            real: real.to_owned(),
            holds: beside.collect(),
        });
    }
    facts
}

fn names<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> String {
    let text: Vec<String> = paths.into_iter().map(|p| p.display().to_string()).collect();
    text.join(" ")
}

fn shown(search_path: &str, beside: &[&str]) -> String {
    names(read_paths(&facts(&[search_path], beside)).shown.keys())
}

#[test]
fn of_an_installation_only_what_programs_load_is_shown() {
    assert_eq!(shown("/usr/bin", &["lib"]), "");
    assert_eq!(shown("/usr/local/bin", &["lib", "pyvenv.cfg"]), "");
    // Settings and tokens lie beside `bin`, under names that nobody can list.
    let fly = ["bin", "config.yml", "state.yml", "share", "lib"];
    assert_eq!(
        shown("/home/you/.fly/bin", &fly),
        "/home/you/.fly/bin /home/you/.fly/lib /home/you/.fly/share"
    );
    assert_eq!(
        shown(
            "/home/you/.pulumi/bin",
            &["bin", "credentials.json", "plugins"]
        ),
        "/home/you/.pulumi/bin"
    );
    assert_eq!(
        shown(
            "/home/you/.cargo/bin",
            &["bin", "credentials.toml", "registry"]
        ),
        "/home/you/.cargo/bin"
    );
    // The share of a user is no share of a program.
    assert_eq!(
        shown("/home/you/.local/bin", &["bin", "share"]),
        "/home/you/.local/bin"
    );
    // Neither is that of another user, whose home nobody told.
    assert_eq!(
        shown("/srv/someone/.local/bin", &["bin", "lib", "share"]),
        "/srv/someone/.local/bin /srv/someone/.local/lib"
    );
    assert_eq!(
        shown("/home/you/bin", &["bin", "lib", "share"]),
        "/home/you/bin"
    );
    assert_eq!(shown("/opt/scripts", &["lib"]), "/opt/scripts");
}

#[test]
fn a_toolchain_is_shown_with_what_it_needs_by_its_layout() {
    let table: [(&str, &[&str], &str); 6] = [
        (
            "/v/bin",
            &["bin", "lib", "lib64>/v/lib", "pyvenv.cfg", ".env"],
            "/v/bin /v/lib /v/lib64 /v/pyvenv.cfg",
        ),
        (
            "/go/bin",
            &["bin", "VERSION", "go.env", "src", "pkg", "lib", "doc"],
            "/go/VERSION /go/bin /go/go.env /go/lib /go/pkg /go/src",
        ),
        // Not the root of Go: somebody's own sources and modules.
        (
            "/home/you/go/bin",
            &["bin", "src", "pkg"],
            "/home/you/go/bin",
        ),
        (
            "/jdk/bin",
            &["bin", "lib", "lib/modules", "release", "conf", "jmods"],
            "/jdk/bin /jdk/conf /jdk/jmods /jdk/lib /jdk/release",
        ),
        (
            "/home/you/.pyenv/shims",
            &["bin", "shims", "versions", "libexec", "version", "src"],
            "/home/you/.pyenv/bin /home/you/.pyenv/libexec /home/you/.pyenv/shims /home/you/.pyenv/version /home/you/.pyenv/versions",
        ),
        (
            "/mvn/bin",
            &["bin", "boot", "conf/logging", "lib"],
            "/mvn/bin /mvn/boot /mvn/conf/logging /mvn/lib",
        ),
    ];
    for (search_path, beside, wanted) in table {
        assert_eq!(shown(search_path, beside), wanted, "{search_path}");
    }
}

#[test]
fn a_part_that_is_a_link_is_followed_inside_its_installation_only() {
    let paths = read_paths(&facts(
        &["/opt/tool/bin"],
        &[
            "bin",
            "lib>/home/you/elsewhere",
            "share>/opt/tool/v2/share",
            "include>/usr/include",
        ],
    ));
    assert_eq!(
        names(paths.shown.keys()),
        "/opt/tool/bin /opt/tool/include /opt/tool/share /opt/tool/v2/share"
    );
    assert_eq!(
        paths.hidden,
        [(path("/opt/tool/lib"), HiddenReason::LeavesInstallation)]
    );
}

#[test]
fn a_file_that_the_operator_names_is_shown() {
    let mut facts = facts(&[], &[]);
    facts.files = vec![("/srv/app/agent.sh".into(), "/srv/app/agent.sh".into())];
    assert_eq!(read_paths(&facts).shown.len(), 1);
}

#[test]
fn what_may_not_be_shown_is_left_out_and_named() {
    let refused = [
        "/home/you/.ssh",
        "/",
        "/home/you",
        "/proc/self",
        "/srv/app/bin",
        "/srv/app/.venv/bin",
        "/opt/served",
        "/opt/served/run",
    ];
    let paths = read_paths(&facts(&refused, &["bin", "lib"]));
    assert_eq!(paths.shown, BTreeMap::new());
    assert_eq!(paths.refused.len(), refused.len());
    // What a socket lies in is not shown; beside it is.
    assert_eq!(
        shown("/opt/served/bin", &["bin", "lib"]),
        "/opt/served/bin /opt/served/lib"
    );
}

fn closed(places: &[&str]) -> Look {
    let place = |text: &&str| ClosedPlace {
        path: path(text.trim_end_matches('/')),
        kind: match text.ends_with('/') {
            true => PlaceKind::Directory,
            false => PlaceKind::File,
        },
    };
    Look::Closed(places.iter().map(place).collect())
}

/// What is seen, masked and left out of `/t/bin`, `/t/lib` and of `/n`, which the operator named.
fn hidden(looks: &[(&str, Look)], by: ClosedBy) -> String {
    let mut facts = facts(&["/t/bin"], &["lib"]);
    facts.named = vec![("/n".into(), "/n".into())];
    let mut paths = read_paths(&facts);
    let looks = looks.iter().map(|(at, look)| (path(at), look.clone()));
    paths.hide(&looks.collect(), by);
    let left_out = paths.hidden.iter().filter(|(_, why)| why.is_left_out());
    let left_out: Vec<String> = left_out
        .map(|(at, why)| format!("{}: {why}", at.display()))
        .collect();
    format!(
        "{} | {} | {}",
        names(paths.shown.keys()),
        names(paths.masked.keys()),
        left_out.join(", ")
    )
}

#[test]
fn what_others_may_not_read_is_masked_or_left_out() {
    use ClosedBy::{LeavingOut, Masks};
    let token = || [("/t/lib", closed(&["/t/lib/a/token", "/t/lib/keys/"]))];
    assert_eq!(
        hidden(&token(), Masks),
        "/n /t/bin /t/lib | /t/lib/a/token /t/lib/keys | "
    );
    assert_eq!(
        hidden(&token(), LeavingOut),
        "/n /t/bin |  | /t/lib: holds_closed"
    );
    assert_eq!(
        hidden(&[("/t/lib", closed(&["/t/lib/"]))], Masks),
        "/n /t/bin |  | /t/lib: closed_to_others"
    );
    let many: Vec<String> = (0..65).map(|n| format!("/t/lib/{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(
        hidden(&[("/t/lib", closed(&many))], Masks),
        "/n /t/bin |  | /t/lib: holds_closed"
    );
    assert_eq!(
        hidden(&[("/t/bin", Look::TooLarge)], Masks),
        "/n /t/lib |  | /t/bin: too_large"
    );
    // Who names a closed place means it; who names an open one does not mean each file in it.
    assert_eq!(
        hidden(&[("/n", closed(&["/n/"]))], Masks),
        "/n /t/bin /t/lib |  | "
    );
    assert_eq!(
        hidden(&[("/n", closed(&["/n/x"]))], Masks),
        "/n /t/bin /t/lib | /n/x | "
    );
}

proptest! {
    /// Whatever is closed below whatever is shown: no path leads to it.
    #[test]
    fn nothing_closed_is_seen(
        places in proptest::collection::btree_set("/t/(bin|lib|lib/s)(/[ab]){0,3}", 0..80),
        named in proptest::option::of("/t/lib(/[ab]){0,2}"),
        masks in any::<bool>(),
    ) {
        let mut facts = facts(&["/t/bin"], &["lib"]);
        facts.named = named.iter().map(|n| (path(n), path(n))).collect();
        let mut paths = read_paths(&facts);
        let looks = paths.to_look_at().into_iter().map(|top| {
            let below = places.iter().filter(|p| Path::new(p).starts_with(&top));
            let below: Vec<&str> = below.map(String::as_str).collect();
            (top, closed(&below))
        });
        let looks = looks.collect();
        let by = if masks { ClosedBy::Masks } else { ClosedBy::LeavingOut };
        paths.hide(&looks, by);
        for place in &places {
            let place = Path::new(place);
            // Meant: it lies in what was named and is itself closed.
            let is_meant = named.as_ref().is_some_and(|n| places.contains(n) && place.starts_with(n));
            let is_in = paths.shown.keys().any(|at| place.starts_with(at));
            let is_masked = paths.masked.keys().any(|at| place.starts_with(at));
            prop_assert!(is_meant || !is_in || is_masked, "{}", place.display());
        }
    }
}
