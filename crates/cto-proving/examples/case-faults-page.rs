//! Prints `docs/case-faults.md`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(cto_proving::case_lane::document().as_bytes())
}
