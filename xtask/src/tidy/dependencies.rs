//! The dependency map as a test: an edge that is not in these tables does not pass.

use cargo_metadata::DependencyKind;

use super::Finding;
use crate::workspace::Workspace;

/// Which crates of the workspace each crate may be built from. A crate without a row does not pass either.
const MAP: &[(&str, &[&str])] = &[
    ("cto-contract", &[]),
    ("cto-rules", &["cto-contract"]),
    ("cto-evidence", &["cto-contract", "cto-rules"]),
    ("cto-agent", &["cto-contract"]),
    ("cto-checkout", &["cto-contract", "cto-rules"]),
    ("cto-sandbox", &[]),
    ("cto-egress", &["cto-contract"]),
    ("cto-store", &["cto-contract"]),
    (
        "cto-ledger",
        &["cto-contract", "cto-rules", "cto-evidence", "cto-store"],
    ),
    (
        "cto-runner",
        &[
            "cto-contract",
            "cto-rules",
            "cto-evidence",
            "cto-agent",
            "cto-checkout",
            "cto-sandbox",
            "cto-egress",
            "cto-store",
            "cto-ledger",
        ],
    ),
    (
        "cto-proving",
        &[
            "cto-contract",
            "cto-rules",
            "cto-evidence",
            "cto-egress",
            "cto-runner",
            "cto-sandbox",
        ],
    ),
    (
        "cto-cli",
        &[
            "cto-proving",
            "cto-contract",
            "cto-rules",
            "cto-evidence",
            "cto-sandbox",
            "cto-egress",
            "cto-store",
            "cto-ledger",
            "cto-runner",
        ],
    ),
    ("cto-testkit", &[]),
    ("xtask", &[]),
];

/// Everyone's tests may use it, nothing that ships may.
const TESTKIT: &str = "cto-testkit";

/// Foreign crates with a home: what they bring (a privilege, a runtime, a format) must not spread.
const HOMES: &[(&str, &[&str])] = &[
    ("anyhow", &["cto-testkit", "xtask"]),
    ("clap", &["cto-cli"]),
    ("clap_complete", &["cto-cli"]),
    ("clap_mangen", &["cto-cli"]),
    ("comfy-table", &["cto-cli"]),
    ("ed25519-dalek", &["cto-evidence", "cto-testkit"]),
    ("flate2", &["cto-checkout", "cto-cli", "cto-runner"]),
    ("indicatif", &["cto-cli"]),
    ("libc", &["cto-sandbox"]),
    ("nix", &["cto-sandbox"]),
    ("p256", &["cto-evidence", "cto-testkit"]),
    ("quick-xml", &["cto-rules"]),
    ("rustls", &["cto-egress"]),
    ("rustls-native-certs", &["cto-egress"]),
    ("rayon", &["cto-checkout", "cto-evidence"]),
    ("serde_json_canonicalizer", &["cto-evidence", "cto-store"]),
    ("sqlx", &["cto-cli", "cto-runner", "cto-store"]),
    ("tokio", &["cto-cli", "cto-runner", "cto-store"]),
    ("toml", &["cto-rules"]),
];

/// Crates that decide and never act, and what would let them act.
const PURE: &[&str] = &["cto-contract", "cto-rules", "cto-agent"];
const IMPURE: &[&str] = &["libc", "rustix", "tempfile", "tokio"];

pub(crate) struct Crate {
    name: String,
    manifest: String,
    dependencies: Vec<(String, DependencyKind)>,
}

pub(crate) fn crates_of(workspace: &Workspace) -> Vec<Crate> {
    let root = &workspace.metadata.workspace_root;
    let packages = workspace.metadata.packages.iter();
    packages
        .map(|package| Crate {
            name: package.name.to_string(),
            manifest: package
                .manifest_path
                .strip_prefix(root)
                .unwrap_or(&package.manifest_path)
                .to_string(),
            dependencies: package
                .dependencies
                .iter()
                .map(|dep| (dep.name.clone(), dep.kind))
                .collect(),
        })
        .collect()
}

pub(crate) fn check(crates: &[Crate]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for krate in crates {
        let mut found = |rule, sentence| {
            findings.push(Finding {
                file: krate.manifest.clone(),
                line: 1,
                rule,
                sentence,
            });
        };
        let Some(allowed) = row(MAP, &krate.name) else {
            found(
                "dependency-map",
                format!(
                    "`{}` is not in the dependency map; give it a row",
                    krate.name
                ),
            );
            continue;
        };
        for (dependency, kind) in &krate.dependencies {
            let for_tests = *kind == DependencyKind::Development;
            let ours = crates.iter().any(|other| other.name == *dependency);
            let edge = format!("`{}` may not depend on `{dependency}`", krate.name);
            if ours && dependency == TESTKIT {
                if !for_tests {
                    found(
                        "dependency-map",
                        format!("{edge} outside its tests; it never ships"),
                    );
                }
            } else if ours {
                if !allowed.contains(&dependency.as_str()) {
                    found(
                        "dependency-map",
                        format!("{edge}; the map does not list that edge"),
                    );
                }
            } else if !for_tests {
                let homes = row(HOMES, dependency);
                if let Some(homes) = homes.filter(|homes| !homes.contains(&krate.name.as_str())) {
                    found(
                        "dependency-home",
                        format!("{edge}; its home is {}", homes.join(", ")),
                    );
                }
                if PURE.contains(&krate.name.as_str()) && IMPURE.contains(&dependency.as_str()) {
                    found(
                        "pure-crate",
                        format!("{edge}; a pure crate decides and does not act"),
                    );
                }
            }
        }
    }
    findings
}

fn row(
    table: &'static [(&'static str, &'static [&'static str])],
    name: &str,
) -> Option<&'static [&'static str]> {
    table
        .iter()
        .find(|(key, _)| *key == name)
        .map(|(_, values)| *values)
}

#[cfg(test)]
mod tests {
    use super::super::samples::shown;
    use super::*;
    use DependencyKind::{Build, Development, Normal};

    fn check_edge(from: &str, to: &str, kind: DependencyKind) -> String {
        let krate = |name: &str, dependencies| Crate {
            name: name.to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            dependencies,
        };
        let mut crates = vec![krate(from, vec![(to.to_owned(), kind)])];
        crates.extend(
            MAP.iter()
                .filter(|(name, _)| *name != from)
                .map(|(name, _)| krate(name, Vec::new())),
        );
        shown(&check(&crates))
    }

    #[test]
    fn an_edge_passes_only_when_listed() {
        assert_eq!(check_edge("cto-rules", "cto-contract", Normal), "");
        assert_eq!(
            check_edge("cto-contract", "cto-rules", Normal),
            "crates/cto-contract/Cargo.toml:1: dependency-map: `cto-contract` may not depend on `cto-rules`; \
             the map does not list that edge"
        );
        assert!(check_edge("cto-agent", "cto-rules", Development).contains("dependency-map"));
        assert!(check_edge("cto-sandbox", "cto-contract", Build).contains("dependency-map"));
    }

    #[test]
    fn the_testkit_serves_tests_only() {
        assert_eq!(check_edge("cto-runner", "cto-testkit", Development), "");
        assert!(check_edge("cto-runner", "cto-testkit", Normal).contains("it never ships"));
        assert!(check_edge("cto-testkit", "cto-runner", Normal).contains("dependency-map"));
    }

    #[test]
    fn a_crate_without_a_row_does_not_pass() {
        assert!(
            check_edge("cto-common", "serde", Normal)
                .contains("`cto-common` is not in the dependency map")
        );
    }

    #[test]
    fn foreign_crates_stay_at_home_but_tests_may_visit() {
        assert_eq!(check_edge("cto-sandbox", "libc", Normal), "");
        assert!(check_edge("cto-runner", "libc", Normal).contains("dependency-home"));
        assert_eq!(check_edge("cto-runner", "libc", Development), "");
        assert!(
            check_edge("cto-runner", "anyhow", Normal).contains("its home is cto-testkit, xtask")
        );
    }

    #[test]
    fn pure_crates_get_nothing_to_act_with() {
        assert!(check_edge("cto-rules", "tempfile", Normal).contains("pure-crate"));
        assert_eq!(check_edge("cto-rules", "tempfile", Development), "");
        assert_eq!(check_edge("cto-checkout", "rustix", Normal), "");
    }

    #[test]
    fn the_map_has_no_cycle() {
        for (position, (name, allowed)) in MAP.iter().enumerate() {
            for dependency in *allowed {
                let place = MAP.iter().position(|(other, _)| other == dependency);
                assert!(
                    place.is_some_and(|place| place < position),
                    "{name} -> {dependency}"
                );
            }
        }
    }
}
