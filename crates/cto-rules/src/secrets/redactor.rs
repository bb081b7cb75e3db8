//! Cuts known values out of a stream.

use std::sync::Arc;

use super::Known;
use super::automaton::{Automaton, Region, Search};

/// Replaces known values by `[redacted:<name>]`, also across the borders of chunks.
///
/// Between two calls it holds no more bytes than the longest spelling has. They may be secret, so it shows nothing.
pub struct Redactor {
    automaton: Arc<Automaton>,
    markers: Vec<Vec<u8>>,
    search: Search,
    held: Vec<u8>,
    /// Position of the first held byte.
    held_from: usize,
    /// The region whose marker is out already, while its end is not.
    open: Option<Region>,
    count: u64,
}

impl Redactor {
    pub fn new(known: &Known) -> Self {
        Self {
            automaton: Arc::clone(&known.automaton),
            markers: known.markers.clone(),
            search: known.automaton.search(),
            held: Vec::new(),
            held_from: 0,
            open: None,
            count: 0,
        }
    }

    /// Takes bytes and appends to `out` what can no longer become part of a value.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        self.automaton.feed(&mut self.search, bytes);
        let settled = self.automaton.settled(&self.search);
        self.release(settled, out);
    }

    /// Appends the rest. The redactor can then be used for another stream.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.release(self.search.position, out);
        self.search = self.automaton.search();
        self.held_from = 0;
        self.open = None;
    }

    /// How many values were cut out so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn release(&mut self, until: usize, out: &mut Vec<u8>) {
        let mut at = self.held_from;
        while at < until {
            let Some(region) = self
                .search
                .regions
                .front()
                .copied()
                .filter(|r| r.start < until)
            else {
                out.extend_from_slice(&self.held[at - self.held_from..until - self.held_from]);
                at = until;
                break;
            };
            if at < region.start {
                out.extend_from_slice(
                    &self.held[at - self.held_from..region.start - self.held_from],
                );
            }
            if self.open.is_none_or(|open| open.start != region.start) {
                out.extend_from_slice(&self.markers[region.owner]);
                self.count += 1;
                self.open = Some(region);
            }
            if region.end > until {
                // The region may still grow, so it stays.
                at = until;
                break;
            }
            at = region.end;
            self.search.regions.pop_front();
        }
        self.held.drain(..at - self.held_from);
        self.held_from = at;
    }
}
