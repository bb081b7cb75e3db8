//! Prints `docs/failures.md`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(cto_proving::failures::document().as_bytes())
}
