//! `backend/sandbox.json`: what held the backend, shown by the sandbox itself before the backend began.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::task::Limits;
use crate::words::{NetworkClass, SandboxClass};

wire_const! {
    /// Schema tag of `backend/sandbox.json`.
    pub struct SandboxProofSchema: &'static str = "cto.sandbox/v1"
}

wire_enum! {
    /// What stands at a place inside.
    pub enum PlaceKind {
        /// Something of the machine, or of the run's own.
        Bind = "bind",
        Overlay = "overlay",
        Tmpfs = "tmpfs",
        Link = "link",
        /// A small file made for this root.
        File = "file",
    }
}

wire_enum! {
    /// How a thing that was tried inside had to come out.
    pub enum Expectation { Refused = "refused", Allowed = "allowed" }
}

/// Asked for, tried and seen. Paths are those inside; nothing names a place of the machine that is not shown there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxProof {
    pub schema_version: SandboxProofSchema,
    pub provider: String,
    pub class: SandboxClass,
    /// The policy as the launcher was given it.
    pub policy: LaunchPolicy,
    /// What a process, held exactly as the backend, tried before it. Empty when the sandbox is not tried from within.
    pub tried: Vec<Tried>,
    /// The mount table as that process saw it.
    pub mounts: Vec<MountSeen>,
    pub mounts_cut: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchPolicy {
    pub network: NetworkClass,
    pub limits: Limits,
    /// Everything that exists inside besides `/proc` and a small `/dev`.
    pub places: Vec<Place>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    pub at: String,
    pub kind: PlaceKind,
    pub writable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    pub act: String,
    pub target: String,
    pub expected: Expectation,
    /// The error number that the kernel gave; null when it worked.
    pub errno: Option<i32>,
    pub held: bool,
}

/// A line of the mount table without the names of devices and of directories outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MountSeen {
    pub at: String,
    pub kind: String,
    pub options: Vec<String>,
}

impl MountSeen {
    /// Reads a line of `mountinfo`; `None` when it is none.
    pub fn parse(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mount: Vec<&str> = mount.split(' ').collect();
        let (at, own) = (mount.get(4)?, mount.get(5)?);
        let mut file_system = file_system.splitn(3, ' ');
        let kind = file_system.next()?;
        let shared = file_system.nth(1).unwrap_or_default();
        let names_a_place = |option: &&str| option.contains('/');
        let mut options: Vec<String> = Vec::new();
        for option in own.split(',').chain(shared.split(',')) {
            let known = options.iter().any(|seen| seen == option);
            if !option.is_empty() && !known && !names_a_place(&option) {
                options.push(option.to_owned());
            }
        }
        // A mount that is read-only has its own word for it; that of its file system would say the contrary.
        if options.first().is_some_and(|first| first == "ro") {
            options.retain(|option| option != "rw");
        }
        Some(Self {
            at: unescape(at),
            kind: kind.to_owned(),
            options,
        })
    }
}

/// The kernel writes blanks and the like as `\` and three octal digits.
fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 4);
        let code = digits
            .filter(|_| bytes[at] == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(code);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(line: &str) -> String {
        MountSeen::parse(line).map_or_else(
            || "-".to_owned(),
            |m| format!("{} {} {}", m.at, m.kind, m.options.join(",")),
        )
    }

    #[test]
    fn a_mount_says_where_and_how_and_not_from_where() {
        let bind = "36 35 98:0 /srv/you/tree /cto/work\\040space ro,nosuid,relatime shared:1 - ext4 /dev/vda1 rw,discard";
        assert_eq!(
            seen(bind),
            "/cto/work space ext4 ro,nosuid,relatime,discard"
        );
        let overlay = "40 35 0:50 / /cto/workspace rw,relatime - overlay overlay rw,lowerdir=/a:/b,upperdir=/c,workdir=/d,userxattr,volatile";
        assert_eq!(
            seen(overlay),
            "/cto/workspace overlay rw,relatime,userxattr,volatile"
        );
        let tmpfs = "41 35 0:51 / / ro - tmpfs root rw,size=1024k,nr_inodes=99,inode64";
        assert_eq!(seen(tmpfs), "/ tmpfs ro,size=1024k,nr_inodes=99,inode64");
        assert_eq!(seen("nothing of the kind"), "-");
    }

    proptest! {
        #[test]
        fn no_line_stops_it_and_no_option_names_a_place(line in ".{0,120}") {
            for line in [line.clone(), format!("1 2 3:4 / /x rw - k s {line}")] {
                let seen = MountSeen::parse(&line);
                prop_assert!(seen.is_none_or(|m| m.options.iter().all(|o| !o.contains('/'))));
            }
        }
    }
}
