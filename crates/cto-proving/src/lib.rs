//! Proves the harness from outside: fixtures that trigger what it must refuse, and validators that check what it shows.
//!
//! Everything goes through the public run API and is judged from sealed packs alone. Nothing here can make a grant, a
//! verdict or a pack, and every pack that comes out is marked as conformance.

pub mod case_lane;
pub mod doubles;
pub mod failures;
pub mod health;
pub mod lane_faults;
pub mod matrix;
pub mod pool;
pub mod qwen_loop;
pub mod redteam;
pub mod stages;

/// Seconds since then with three digits: what a person reads.
fn seconds(since: std::time::Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1000.0).round() / 1000.0
}
