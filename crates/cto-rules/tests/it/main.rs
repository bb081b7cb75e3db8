//! Rules that are tested on what other programs write.

mod patch;
