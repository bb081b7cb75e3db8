//! Finds many byte strings at once, in one pass and with bounded memory.
//!
//! Occurrences that overlap are one region, so that cutting it out leaves no part of any of them. Regions do not
//! depend on how the bytes were cut into chunks: the crate's automaton is walked byte by byte, without its prefilters,
//! which look ahead and so must see all bytes at once.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::NFA;

/// All spellings of all values. It shows nothing of itself, because it is made of secrets.
pub(super) struct Automaton {
    nfa: NFA,
    start: StateID,
    /// The owner of each spelling.
    owners: Vec<usize>,
    /// By state, how many of the bytes read last are the beginning of a spelling.
    depths: HashMap<StateID, usize>,
}

/// A stretch of bytes that belongs to known values, and the value that begins it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) owner: usize,
}

/// Where a search stands.
pub(super) struct Search {
    state: StateID,
    /// Bytes seen so far.
    pub(super) position: usize,
    /// Regions in order, not overlapping; the caller takes those it has dealt with.
    pub(super) regions: VecDeque<Region>,
}

impl Automaton {
    /// Builds from spellings and their owners. Of two equal spellings the first counts.
    #[expect(
        clippy::expect_used,
        reason = "fails only where a hundred million bytes of spellings make too many states"
    )]
    pub(super) fn new(spellings: &[(Vec<u8>, usize)]) -> Self {
        let spellings = spellings.iter().filter(|(s, _)| !s.is_empty());
        let nfa = NFA::new(spellings.clone().map(|(s, _)| s)).expect("few states");
        let start = nfa
            .start_state(Anchored::No)
            .expect("can begin anywhere, as every automaton of this kind");
        // A spelling leads through the states of its own beginnings, each as deep as it is long.
        let mut depths = HashMap::new();
        for (spelling, _) in spellings.clone() {
            let mut state = start;
            for (i, byte) in spelling.iter().enumerate() {
                state = nfa.next_state(Anchored::No, state, *byte);
                depths.insert(state, i + 1);
            }
        }
        Self {
            nfa,
            start,
            owners: spellings.map(|(_, owner)| *owner).collect(),
            depths,
        }
    }

    pub(super) fn search(&self) -> Search {
        Search {
            state: self.start,
            position: 0,
            regions: VecDeque::new(),
        }
    }

    /// Reads more bytes.
    pub(super) fn feed(&self, search: &mut Search, bytes: &[u8]) {
        // With nothing to look for there is nothing to read.
        if self.owners.is_empty() {
            search.position += bytes.len();
            return;
        }
        let (mut state, from) = (search.state, search.position);
        for (i, byte) in bytes.iter().enumerate() {
            state = self.nfa.next_state(Anchored::No, state, *byte);
            if self.nfa.is_match(state) {
                self.note(&mut search.regions, state, from + i + 1);
            }
        }
        search.state = state;
        search.position = from + bytes.len();
    }

    /// Bytes before this position can be in no further occurrence.
    pub(super) fn settled(&self, search: &Search) -> usize {
        search.position - self.depths.get(&search.state).copied().unwrap_or(0)
    }

    /// Adds the longest occurrence that ends where the search stands, joining the regions it overlaps.
    fn note(&self, regions: &mut VecDeque<Region>, state: StateID, end: usize) {
        let ends_here = (0..self.nfa.match_len(state))
            .map(|i| self.nfa.match_pattern(state, i))
            .max_by_key(|id| (self.nfa.pattern_len(*id), Reverse(*id)));
        let Some(longest) = ends_here else { return };
        let mut found = Region {
            start: end - self.nfa.pattern_len(longest),
            end,
            owner: self.owners[longest.as_usize()],
        };
        while let Some(last) = regions.pop_back_if(|last| found.start < last.end) {
            // Of what begins at one place, the later and so longer occurrence gives the name.
            if last.start < found.start {
                found.owner = last.owner;
                found.start = last.start;
            }
        }
        regions.push_back(found);
    }
}
