//! Prints `docs/redteam.md`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(cto_proving::redteam::document().as_bytes())
}
