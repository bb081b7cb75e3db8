//! Who tries to get out, to stay, to take too much, or to be somebody else.

use cto_contract::blocker::BlockerCode;
use cto_contract::words::RunStatus;

use super::super::scene::{Claim, Meddling, Program, Scene, Work};
use super::{BLOCKED, BY_TEXT, DISALLOWED, FAIL, PASS, PLAIN, REFUSED};

pub(super) const SCENES: &[Scene] = &[
    Scene {
        name: "files",
        program: python!("files"),
        tries: &[
            (1, REFUSED),
            (2, REFUSED),
            (3, REFUSED),
            (4, REFUSED),
            (5, REFUSED),
            (6, REFUSED),
            (7, REFUSED),
            (8, REFUSED),
            (9, REFUSED),
            (10, REFUSED),
            (11, REFUSED),
            (12, REFUSED),
        ],
        is_rehearsed: true,
        ..PLAIN
    },
    Scene {
        name: "secrets",
        program: python!("secrets"),
        tries: &[
            (13, REFUSED),
            (14, REFUSED),
            (15, REFUSED),
            (16, REFUSED),
            (17, REFUSED),
            (
                48,
                &[
                    Claim::Refused,
                    Claim::HonestPart,
                    Claim::Shows("backend/stdout.log", "forged"),
                    Claim::Hides("events.normalized.jsonl", "rt48\\\": \\\"forged"),
                    Claim::Hides("trace.jsonl", "forged"),
                ],
            ),
        ],
        is_rehearsed: true,
        ..PLAIN
    },
    Scene {
        name: "relay",
        program: python!("relay"),
        tries: &[(
            25,
            &[
                Claim::Refused,
                Claim::HonestPart,
                Claim::NoSurvivors,
                Claim::Shows("backend/egress.jsonl", "connect_method"),
                Claim::Shows("backend/egress.jsonl", "hosted_tool"),
                PASS,
            ],
        )],
        terms: &[("network", "model")],
        ..PLAIN
    },
    Scene {
        name: "network",
        program: python!("network"),
        tries: &[
            (18, REFUSED),
            (19, REFUSED),
            (20, REFUSED),
            (21, REFUSED),
            (22, REFUSED),
            (23, REFUSED),
            (24, REFUSED),
            (26, REFUSED),
        ],
        is_rehearsed: true,
        ..PLAIN
    },
    Scene {
        name: "kernel",
        program: python!("kernel"),
        tries: &[
            (27, REFUSED),
            (28, REFUSED),
            (29, REFUSED),
            (30, REFUSED),
            (31, REFUSED),
            (32, REFUSED),
            (33, REFUSED),
            (34, REFUSED),
            (55, REFUSED),
            (
                56,
                &[
                    Claim::Refused,
                    Claim::HonestPart,
                    Claim::Shows(
                        "backend/stderr.log",
                        "rt56 the nested sandbox said: unshare:",
                    ),
                ],
            ),
        ],
        ..PLAIN
    },
    Scene {
        name: "recorder",
        program: python!("recorder"),
        tries: &[
            (49, REFUSED),
            (50, REFUSED),
            (51, &[Claim::Refused, Claim::HonestPart, Claim::Drops]),
        ],
        ..PLAIN
    },
    Scene {
        name: "daemon",
        program: python!("daemon"),
        tries: &[(
            35,
            &[Claim::Controls, Claim::NoSurvivors, Claim::HonestPart, PASS],
        )],
        ..PLAIN
    },
    Scene {
        name: "fork-bomb",
        program: python!("forks"),
        tries: &[(
            36,
            &[
                Claim::Controls,
                Claim::Limit("processes"),
                Claim::NoSurvivors,
                BLOCKED,
            ],
        )],
        terms: &[("limits", "{wall_seconds: 60, processes: 50}")],
        ..PLAIN
    },
    Scene {
        name: "memory-bomb",
        program: python!("memory"),
        tries: &[(
            37,
            &[
                Claim::Controls,
                Claim::Limit("memory_bytes"),
                Claim::NoSurvivors,
                BLOCKED,
            ],
        )],
        terms: &[("limits", "{wall_seconds: 60, memory_mb: 128}")],
        ..PLAIN
    },
    Scene {
        name: "disk-fill",
        program: python!("disk"),
        tries: &[(38, &[Claim::Controls, Claim::Limit("disk_bytes"), BLOCKED])],
        terms: &[("limits", "{wall_seconds: 60, disk_mb: 8}")],
        ..PLAIN
    },
    Scene {
        name: "inode-fill",
        program: python!("inodes"),
        tries: &[(38, &[Claim::Controls, Claim::Limit("disk_files"), BLOCKED])],
        terms: &[("limits", "{wall_seconds: 60, disk_mb: 8}")],
        ..PLAIN
    },
    Scene {
        name: "stubborn",
        program: python!("stubborn"),
        tries: &[(
            39,
            &[
                Claim::Controls,
                Claim::Signal(9),
                Claim::NoSurvivors,
                Claim::Blocker(&[
                    BlockerCode::Timeout,
                    BlockerCode::LifecycleTimeoutAfterValidPatch,
                ]),
            ],
        )],
        terms: &[("limits", "{wall_seconds: 1}")],
        ..PLAIN
    },
    Scene {
        name: "output-flood",
        program: python!("flood"),
        tries: &[(
            40,
            &[
                Claim::Controls,
                Claim::Capped,
                Claim::Shows("events.normalized.jsonl", "rt40-shown"),
                Claim::Hides("report.md", "\u{1b}"),
                Claim::Hides("report.md", "\u{202e}"),
                Claim::Hides("trace.jsonl", "\u{1b}"),
            ],
        )],
        terms: &[("limits", "{wall_seconds: 60, output_mb: 1}")],
        ..PLAIN
    },
    Scene {
        name: "init-killed",
        program: python!("killed"),
        tries: &[(
            54,
            &[
                Claim::Controls,
                Claim::Signal(9),
                Claim::Blocker(&[BlockerCode::BackendFailed]),
                FAIL,
            ],
        )],
        meddling: Meddling::KillInit,
        ..PLAIN
    },
    Scene {
        name: "push",
        program: Program::Shell(
            r#"denied 60 remote 'git remote | grep -q .'
denied 60 name 'git push -q origin HEAD:refs/heads/rt60'
denied 60 path 'git push -q "$place/remote.git" HEAD:refs/heads/rt60'
git init -q --bare /tmp/own.git
says 60 own 'git push -q /tmp/own.git HEAD:refs/heads/x'"#,
        ),
        tries: &[(60, &[Claim::Refused, Claim::HonestPart])],
        owner: "git init -q --bare ../remote.git && git remote add origin ../remote.git",
        ..PLAIN
    },
    Scene {
        name: "binary-swapped",
        program: Program::File("#!/bin/sh\necho new > src/a.txt\n"),
        tries: &[(
            62,
            &[
                Claim::Status(RunStatus::Blocked),
                Claim::Blocker(&[BlockerCode::ProviderUnavailable]),
                Claim::Hides("backend/stdout.log", "swapped"),
                Claim::Hides("patch.diff", "swapped"),
            ],
        )],
        meddling: Meddling::SwapProgram,
        ..PLAIN
    },
    Scene {
        name: "case-swapped",
        program: Program::Shell(
            "echo changed >> other.txt\nsays 63 changed 'grep -q changed other.txt'",
        ),
        tries: &[(
            63,
            &[
                Claim::Controls,
                Claim::Changed("other.txt"),
                DISALLOWED,
                FAIL,
                Claim::Hides("task-contract.json", "**"),
            ],
        )],
        terms: &[BY_TEXT],
        work: Work::Case,
        meddling: Meddling::SwapCase,
        ..PLAIN
    },
];
