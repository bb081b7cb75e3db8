//! Finds many byte strings at once, in one pass and with bounded memory.
//!
//! Occurrences that overlap are one region, so that cutting it out leaves no part of any of them. Regions do not
//! depend on how the bytes were cut into chunks.

use std::collections::VecDeque;

const ROOT: u32 = 0;

#[derive(Debug)]
struct Node {
    /// Sorted by byte.
    children: Vec<(u8, u32)>,
    /// The longest proper suffix that is also the beginning of a spelling.
    fail: u32,
    depth: usize,
    /// Length and owner of the longest spelling that ends here.
    found: Option<(usize, usize)>,
}

/// A trie with failure links.
#[derive(Debug)]
pub(super) struct Automaton {
    nodes: Vec<Node>,
    /// The root's children, where most bytes of innocent text are looked up.
    first: [u32; 256],
}

/// A stretch of bytes that belongs to known values, and the value that begins it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) owner: usize,
}

/// Where a search stands.
#[derive(Debug, Default)]
pub(super) struct Search {
    node: u32,
    /// Bytes seen so far.
    pub(super) position: usize,
    /// Regions in order, not overlapping; the caller takes those it has dealt with.
    pub(super) regions: VecDeque<Region>,
}

impl Search {
    pub(super) fn take_all(&mut self) -> Vec<Region> {
        self.regions.drain(..).collect()
    }
}

impl Automaton {
    /// Builds from spellings and their owners. Of two equal spellings the first counts.
    pub(super) fn new(spellings: &[(Vec<u8>, usize)]) -> Self {
        let mut nodes = vec![Node {
            children: Vec::new(),
            fail: ROOT,
            depth: 0,
            found: None,
        }];
        for (spelling, owner) in spellings.iter().filter(|(s, _)| !s.is_empty()) {
            let mut at = ROOT;
            for byte in spelling {
                let next = match child(&nodes[at as usize], *byte) {
                    Some(next) => next,
                    None => add(&mut nodes, at, *byte),
                };
                at = next;
            }
            let node = &mut nodes[at as usize];
            node.found = node.found.or(Some((spelling.len(), *owner)));
        }
        link(&mut nodes);
        let mut first = [ROOT; 256];
        for (byte, next) in &nodes[ROOT as usize].children {
            first[usize::from(*byte)] = *next;
        }
        Self { nodes, first }
    }

    /// Reads more bytes.
    pub(super) fn feed(&self, search: &mut Search, bytes: &[u8]) {
        // With nothing to look for there is nothing to read.
        if self.nodes[ROOT as usize].children.is_empty() {
            search.position += bytes.len();
            return;
        }
        for byte in bytes {
            search.position += 1;
            let mut at = self.step(search.node, *byte);
            if let Some((length, owner)) = self.nodes[at as usize].found {
                note(
                    &mut search.regions,
                    Region {
                        start: search.position - length,
                        end: search.position,
                        owner,
                    },
                );
            }
            // Nothing goes on from a leaf, so its bytes need not be held back any longer.
            while at != ROOT && self.nodes[at as usize].children.is_empty() {
                at = self.nodes[at as usize].fail;
            }
            search.node = at;
        }
    }

    /// Bytes before this position can be in no further occurrence.
    pub(super) fn settled(&self, search: &Search) -> usize {
        search.position - self.nodes[search.node as usize].depth
    }

    fn step(&self, from: u32, byte: u8) -> u32 {
        let mut at = from;
        while at != ROOT {
            let node = &self.nodes[at as usize];
            if let Some(next) = child(node, byte) {
                return next;
            }
            at = node.fail;
        }
        self.first[usize::from(byte)]
    }
}

fn child(node: &Node, byte: u8) -> Option<u32> {
    node.children
        .binary_search_by_key(&byte, |(b, _)| *b)
        .ok()
        .map(|i| node.children[i].1)
}

fn add(nodes: &mut Vec<Node>, parent: u32, byte: u8) -> u32 {
    let next = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    let depth = nodes[parent as usize].depth + 1;
    nodes.push(Node {
        children: Vec::new(),
        fail: ROOT,
        depth,
        found: None,
    });
    let siblings = &mut nodes[parent as usize].children;
    let at = siblings.partition_point(|(b, _)| *b < byte);
    siblings.insert(at, (byte, next));
    next
}

/// Sets failure links by breadth, so that each rests on shorter ones that are set already.
fn link(nodes: &mut [Node]) {
    let mut queue: VecDeque<u32> = nodes[ROOT as usize]
        .children
        .iter()
        .map(|(_, n)| *n)
        .collect();
    while let Some(at) = queue.pop_front() {
        for (byte, next) in nodes[at as usize].children.clone() {
            let mut back = nodes[at as usize].fail;
            let fail = loop {
                match child(&nodes[back as usize], byte) {
                    Some(found) => break found,
                    None if back == ROOT => break ROOT,
                    None => back = nodes[back as usize].fail,
                }
            };
            let shorter = nodes[fail as usize].found;
            let node = &mut nodes[next as usize];
            node.fail = fail;
            node.found = node.found.or(shorter);
            queue.push_back(next);
        }
    }
}

/// Adds an occurrence that ends where the search stands, joining the regions it overlaps.
fn note(regions: &mut VecDeque<Region>, mut found: Region) {
    while let Some(last) = regions.back().filter(|last| found.start < last.end) {
        // Of what begins at one place, the later and so longer occurrence gives the name.
        if last.start < found.start {
            found.owner = last.owner;
            found.start = last.start;
        }
        regions.pop_back();
    }
    regions.push_back(found);
}
