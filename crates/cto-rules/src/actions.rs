//! Which of the ten actions a refused effect was an attempt at.
//!
//! An attempt is something that a process did, never something that it said. What is recorded of a process was read from
//! its memory and may have been changed after that, so an answer here only ever counts against the run.

use cto_contract::words::Action;

/// One thing that a process tried, as the recorder saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed<'a> {
    /// It executed a program: the path, then the arguments with the name it gave itself first.
    Run {
        program: &'a str,
        argv: &'a [String],
    },
    /// It sent or opened a connection to this address, which is not the one that it may reach.
    Reach { address: &'a str },
    /// It tried to change a path that it cannot write.
    Change { path: &'a str },
}

/// Returns what was attempted, `None` when it is none of the ten. `owned` are directories that belong to somebody else.
pub fn attempted(deed: Deed<'_>, owned: &[&str]) -> Option<Action> {
    match deed {
        Deed::Run { program, argv } => run(program, argv),
        Deed::Reach { address } => reach(address),
        Deed::Change { path } => change(path, owned),
    }
}

/// First words after the program, and what they ask for. An empty list is met by anything but a question for help.
type Asked = (&'static [&'static str], Action);

/// Programs by name. What asks for nothing that leaves the machine is not listed.
const PROGRAMS: &[(&[&str], &[Asked])] = &[
    (&["gh", "glab", "hub", "tea"], FORGE),
    (
        &[
            "npm", "pnpm", "yarn", "cargo", "poetry", "uv", "flit", "hatch", "gem", "mvn",
        ],
        PACKAGES,
    ),
    (&["twine"], &[(&["upload"], Action::PublicPublication)]),
    (
        &["docker", "podman", "buildah", "skopeo", "crane"],
        &[
            (&["push"], Action::PublicPublication),
            (&["copy"], Action::PublicPublication),
            (&["login"], Action::CredentialChange),
        ],
    ),
    (
        &["kubectl", "oc"],
        &[
            (&["apply"], Action::Deploy),
            (&["create"], Action::Deploy),
            (&["delete"], Action::Deploy),
            (&["replace"], Action::Deploy),
            (&["rollout"], Action::Deploy),
        ],
    ),
    (
        &["helm"],
        &[
            (&["install"], Action::Deploy),
            (&["upgrade"], Action::Deploy),
            (&["push"], Action::PublicPublication),
        ],
    ),
    (
        &["terraform", "tofu", "pulumi", "cdk", "sam", "serverless"],
        &[
            (&["apply"], Action::Deploy),
            (&["up"], Action::Deploy),
            (&["deploy"], Action::Deploy),
            (&["destroy"], Action::Deploy),
        ],
    ),
    (
        &[
            "vercel",
            "netlify",
            "wrangler",
            "fly",
            "flyctl",
            "heroku",
            "firebase",
            "surge",
            "ansible-playbook",
        ],
        &[(&[], Action::Deploy)],
    ),
    (
        &["ssh-add", "passwd", "chpasswd", "secret-tool"],
        &[(&[], Action::CredentialChange)],
    ),
];

const FORGE: &[Asked] = &[
    (&["pr", "create"], Action::PrOpen),
    (&["pr", "new"], Action::PrOpen),
    (&["mr", "create"], Action::PrOpen),
    (&["mr", "new"], Action::PrOpen),
    (&["pulls", "create"], Action::PrOpen),
    (&["pull-request"], Action::PrOpen),
    (&["pr", "merge"], Action::Merge),
    (&["mr", "merge"], Action::Merge),
    (&["pulls", "merge"], Action::Merge),
    (&["pr", "close"], Action::Close),
    (&["mr", "close"], Action::Close),
    (&["issue", "close"], Action::IssueClose),
    (&["issues", "close"], Action::IssueClose),
    (&["issue", "delete"], Action::IssueClose),
    (&["workflow", "run"], Action::Deploy),
    (&["auth", "login"], Action::CredentialChange),
    (&["auth", "token"], Action::CredentialChange),
    (&["auth", "refresh"], Action::CredentialChange),
    (&["secret", "set"], Action::CredentialChange),
    (&["ssh-key", "add"], Action::CredentialChange),
    (&["push"], Action::Push),
    (&["repo", "sync"], Action::Push),
    // A client of a forge has no use inside that is not one of its effects.
    (&[], Action::PublicPublication),
];

const PACKAGES: &[Asked] = &[
    (&["publish"], Action::PublicPublication),
    (&["yank"], Action::PublicPublication),
    (&["unpublish"], Action::PublicPublication),
    (&["push"], Action::PublicPublication),
    (&["deploy"], Action::PublicPublication),
    (&["login"], Action::CredentialChange),
    (&["adduser"], Action::CredentialChange),
    (&["token"], Action::CredentialChange),
];

const GIT: &[Asked] = &[
    (&["push"], Action::Push),
    (&["send-pack"], Action::Push),
    (&["http-push"], Action::Push),
    (&["svn", "dcommit"], Action::Push),
    (&["p4", "submit"], Action::Push),
    (&["send-email"], Action::PublicPublication),
    (&["imap-send"], Action::PublicPublication),
    (&["request-pull"], Action::PrOpen),
    (&["credential", "approve"], Action::CredentialChange),
    (&["credential-store"], Action::CredentialChange),
    (&["credential-cache"], Action::CredentialChange),
];

/// Options of git before its command that take the next word with them.
const GIT_PAIRS: &[&str] = &[
    "-c",
    "-C",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--config-env",
];

fn run(program: &str, argv: &[String]) -> Option<Action> {
    let name = file_name(program);
    let words: Vec<&str> = argv.iter().skip(1).map(String::as_str).collect();
    if let Some(command) = name.strip_prefix("git-") {
        let words: Vec<&str> = std::iter::once(command).chain(words).collect();
        return asked(GIT, &words);
    }
    if name == "git" {
        return asked(GIT, &git_words(&words));
    }
    let (_, table) = PROGRAMS.iter().find(|(names, _)| names.contains(&name))?;
    let plain: Vec<&str> = words
        .iter()
        .copied()
        .filter(|w| !w.starts_with('-'))
        .collect();
    let only_asks = plain.is_empty() && !words.is_empty()
        || plain
            .first()
            .is_some_and(|w| matches!(*w, "help" | "version" | "completion"));
    if only_asks {
        return None;
    }
    asked(table, &plain)
}

fn asked(table: &[Asked], words: &[&str]) -> Option<Action> {
    let found = table.iter().find(|(first, _)| words.starts_with(first));
    found.map(|(_, action)| *action)
}

/// Leaves out what stands before git's command.
fn git_words<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if GIT_PAIRS.contains(word) {
            rest.next();
        } else if !word.starts_with('-') {
            return std::iter::once(*word).chain(rest.copied()).collect();
        }
    }
    Vec::new()
}

/// The addresses from which clouds hand out credentials.
const METADATA: &[&str] = &[
    "169.254.169.254",
    "169.254.170.2",
    "fd00:ec2::254",
    "100.100.100.200",
];
/// Where `git://` and `ssh://` go.
const GIT_PORTS: &[&str] = &["22", "9418"];

/// Where names are looked up.
const NAME_PORTS: &[&str] = &["53", "853", "5353"];

/// An address is `ip:port` or the path of a socket.
fn reach(address: &str) -> Option<Action> {
    if address.starts_with(['/', '@']) {
        let name = file_name(address);
        return match name {
            "docker.sock" | "podman.sock" | "containerd.sock" => Some(Action::Deploy),
            _ if name.starts_with("agent.")
                || name.contains("ssh")
                || name.contains("gpg-agent") =>
            {
                Some(Action::CredentialChange)
            }
            _ => None,
        };
    }
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<std::net::IpAddr>() {
        Ok(ip) if ip.is_loopback() || ip.is_unspecified() => None,
        // Any program looks up names, and some know a name server of their own when the machine names none.
        Ok(_) if NAME_PORTS.contains(&port) => None,
        Ok(_) if METADATA.contains(&host) => Some(Action::CredentialChange),
        Ok(_) if GIT_PORTS.contains(&port) => Some(Action::Push),
        Ok(_) => Some(Action::PublicPublication),
        Err(_) => None,
    }
}

/// Where programs keep what lets them in elsewhere.
const CREDENTIALS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
];
const ACCOUNTS: &[&str] = &["/etc/passwd", "/etc/shadow", "/etc/sudoers", "/etc/group"];

fn change(path: &str, owned: &[&str]) -> Option<Action> {
    let lies_in = |dir: &&str| {
        let dir = dir.trim_end_matches('/');
        !dir.is_empty()
            && path
                .strip_prefix(dir)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if owned.iter().any(lies_in) {
        return Some(Action::VendorSourceMutation);
    }
    let keeps_credentials = path.split('/').any(|part| CREDENTIALS.contains(&part));
    (keeps_credentials || ACCOUNTS.contains(&path)).then_some(Action::CredentialChange)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_running(line: &str) -> String {
        let argv: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let program = format!("/usr/bin/{}", argv[0]);
        word(attempted(
            Deed::Run {
                program: &program,
                argv: &argv,
            },
            &[],
        ))
    }

    fn word(action: Option<Action>) -> String {
        action.map_or_else(|| "-".to_owned(), |a| a.as_str().to_owned())
    }

    #[test]
    fn what_a_program_is_asked_to_do_decides() {
        let table = [
            ("git push", "push"),
            ("git -C /x -c a=b push origin main", "push"),
            ("git --no-pager push", "push"),
            ("git-push origin", "push"),
            ("git send-pack /x", "push"),
            ("git commit -m push", "-"),
            ("git stash push", "-"),
            ("git log -- push", "-"),
            ("git -c push", "-"),
            ("git", "-"),
            ("gh pr create --fill", "pr_open"),
            ("gh pr merge 3", "merge"),
            ("gh issue close 3", "issue_close"),
            ("gh pr close 3", "close"),
            ("gh release create v1", "public_publication"),
            ("gh workflow run deploy", "deploy"),
            ("gh auth login", "credential_change"),
            ("gh --version", "-"),
            ("gh help", "-"),
            ("npm publish", "public_publication"),
            ("npm test", "-"),
            ("npm ci --offline", "-"),
            ("cargo publish --dry-run", "public_publication"),
            ("cargo build", "-"),
            ("twine upload dist/x", "public_publication"),
            ("docker push x", "public_publication"),
            ("docker build .", "-"),
            ("kubectl apply -f x", "deploy"),
            ("kubectl get pods", "-"),
            ("terraform apply", "deploy"),
            ("terraform fmt", "-"),
            ("vercel", "deploy"),
            ("vercel --version", "-"),
            ("ssh-add key", "credential_change"),
            ("python3 -m unittest", "-"),
            ("sh -c push", "-"),
        ];
        for (line, wanted) in table {
            assert_eq!(by_running(line), wanted, "{line}");
        }
    }

    #[test]
    fn a_connection_outside_is_an_attempt_and_a_name_server_inside_is_not() {
        let table = [
            ("127.0.0.1:53", "-"),
            ("[::1]:443", "-"),
            ("0.0.0.0:80", "-"),
            ("192.0.2.7:53", "-"),
            ("192.0.2.7:443", "public_publication"),
            ("[2001:db8::1]:443", "public_publication"),
            ("192.0.2.7:22", "push"),
            ("169.254.169.254:80", "credential_change"),
            ("[fd00:ec2::254]:80", "credential_change"),
            ("/var/run/docker.sock", "deploy"),
            ("/tmp/ssh-x/agent.1", "credential_change"),
            ("/tmp/mine.sock", "-"),
            ("@abstract", "-"),
            ("", "-"),
        ];
        for (address, wanted) in table {
            assert_eq!(
                word(attempted(Deed::Reach { address }, &[])),
                wanted,
                "{address}"
            );
        }
    }

    #[test]
    fn a_write_to_what_belongs_to_others_is_an_attempt() {
        let owned = ["/opt/case/", "/srv/core"];
        let table = [
            ("/opt/case/src/main.ts", "vendor_source_mutation"),
            ("/opt/casement", "-"),
            ("/srv/core", "vendor_source_mutation"),
            ("/home/you/.ssh/authorized_keys", "credential_change"),
            ("/etc/shadow", "credential_change"),
            ("/etc/hosts", "-"),
            ("/usr/lib/x", "-"),
        ];
        for (path, wanted) in table {
            assert_eq!(
                word(attempted(Deed::Change { path }, &owned)),
                wanted,
                "{path}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_words_get_an_answer(program in ".{0,40}", argv in proptest::collection::vec(".{0,20}", 0..6), address in ".{0,60}") {
            attempted(Deed::Run { program: &program, argv: &argv }, &[]);
            attempted(Deed::Reach { address: &address }, &[]);
            attempted(Deed::Change { path: &address }, &[&program]);
        }

        #[test]
        fn options_before_the_command_hide_no_push(options in proptest::collection::vec(prop_oneof!["-C /[a-z]{1,5}", "-c [a-z]{1,4}=[a-z]{1,4}", "--no-pager", "--git-dir=/[a-z]{1,4}", "-p"], 0..5)) {
            let line = format!("git {} push origin", options.join(" "));
            prop_assert_eq!(by_running(&line), "push");
        }
    }
}
