//! Real processes through the real launcher: how they end, what they see, and that nothing of them stays.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bounds;
mod containers;
mod containment;
mod endpoint;
mod ends;
mod expected_confinement;
mod files;
mod harness;
mod honest;
mod killing;
mod proof;
mod providers;
mod recorder;
mod recorder_attacked;
mod redteam;
mod renames;
mod root;
mod stdin;
mod support;
mod workshop;
