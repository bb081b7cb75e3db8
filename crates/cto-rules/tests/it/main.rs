//! Rules that are tested on what other programs write.

mod canaries;
mod patch;
mod runners;
