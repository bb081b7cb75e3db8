//! The binary from outside: real processes, each test with a home and a config of its own.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests start processes, write fixtures, and end at the first surprise"
)]

mod applying;
mod approval_attacks;
mod approvals;
mod archives;
mod attributes;
mod bad_input;
mod case;
mod confined;
mod crash;
mod dice;
mod dirt;
mod engines;
mod evidence;
mod failures;
mod full_disk;
mod gates;
mod help;
mod homes;
mod hostile;
mod installed_tools;
mod judging;
mod kill_points;
mod kills;
mod ladder;
mod landings;
mod lane_faults;
mod lanes;
mod lingering;
mod live;
mod load;
mod measured;
mod model;
mod model_faults;
mod namespace;
mod operators;
mod oracles;
mod own_key;
mod packs;
mod place;
mod planning;
mod power_loss;
mod preflight;
mod projects;
mod providers;
mod real_lanes;
mod records;
mod redteam;
mod renames;
mod repositories;
mod residue;
mod retention;
mod rounds;
mod runners;
mod sandbox;
mod schemas;
mod scripted;
mod setting_up;
mod signed_records;
mod source;
mod stages;
mod strangers;
mod surroundings;
mod tampered_homes;
mod targets;
mod test_home;
mod tracer;
mod transfer;
