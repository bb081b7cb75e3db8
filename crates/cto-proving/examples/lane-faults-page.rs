//! Prints `docs/lane-faults.md`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(cto_proving::lane_faults::document().as_bytes())
}
