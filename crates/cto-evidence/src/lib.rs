//! Evidence packs: canonical bytes, the event chain, the seal, and a verifier that needs nothing but the pack.
//!
//! Invariants: no clock, no environment, no network, no async. Files are read and written only by directory
//! descriptor (`pack`, `read`, `writer`), with no link followed and every size capped. `verify` never panics, whatever
//! the bytes are, and never writes. A pack is sealed if and only if its attestation is there.

pub mod addendum;
pub mod again;
pub mod canonical;
pub mod chain;
pub mod dsse;
pub mod key;
pub mod operators;
pub mod pack;
mod read;
pub mod seal;
pub mod signed;
pub mod sshsig;
pub mod sums;
pub mod trust;
pub mod verify;
pub mod withheld;
pub mod writer;
