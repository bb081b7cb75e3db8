//! The binary from outside: real processes, each test with a home and a config of its own.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests start processes, write fixtures, and end at the first surprise"
)]

mod bad_input;
mod confined;
mod crash;
mod evidence;
mod failures;
mod gates;
mod ground;
mod help;
mod hostile;
mod judging;
mod kills;
mod live;
mod load;
mod model;
mod packs;
mod place;
mod planning;
mod projects;
mod providers;
mod redteam;
mod renames;
mod repositories;
mod retention;
mod runners;
mod sandbox;
mod schemas;
mod setting_up;
mod source;
mod surroundings;
mod transfer;
