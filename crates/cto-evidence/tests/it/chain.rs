//! The log: its chain, its torn end, its damage.

use cto_contract::event::EventKind;
use cto_evidence::chain::{LineChain, read_log, recover_tail};
use proptest::prelude::*;

use crate::sample;

fn lines() -> Vec<Vec<u8>> {
    sample::pass()
        .log()
        .split_inclusive(|b| *b == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

fn read(lines: &[Vec<u8>]) -> String {
    read_log(&lines.concat()).map_or_else(
        |e| format!("{} {e}", e.code),
        |log| format!("{} events", log.events.len()),
    )
}

#[test]
fn a_log_reads_back_and_goes_on() {
    let plan = sample::pass();
    let log = read_log(&plan.log()).unwrap();
    assert_eq!(log.events.len(), plan.events.len());
    assert_eq!(log.nonce, plan.nonce);
    let kinds: Vec<&EventKind> = plan.events.iter().map(|(_, k)| k).collect();
    assert_eq!(
        log.events.iter().map(|e| &e.kind).collect::<Vec<_>>(),
        kinds
    );
    let mut chain = LineChain::resume(&log);
    let (actor, kind) = plan.events[1].clone();
    let line = chain.append(sample::at(99), actor, kind).unwrap();
    assert_eq!(line.bytes.iter().filter(|b| **b == b'\n').count(), 1);
    let mut whole = plan.log();
    whole.extend(&line.bytes);
    let again = read_log(&whole).unwrap();
    assert_eq!(
        (&again.head, again.events.len() as u64),
        (chain.head(), chain.len())
    );
}

#[test]
fn damage_is_named_with_its_line() {
    let good = lines();
    let edited = |edit: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut lines = good.clone();
        edit(&mut lines);
        read(&lines)
    };
    insta::assert_snapshot!(edited(&|_| {}), @"12 events");
    insta::assert_snapshot!(edited(&|l| l.swap(2, 3)), @"event_sequence line 3: has seq 4, expected 3");
    insta::assert_snapshot!(edited(&|l| { l.remove(4); }), @"event_sequence line 5: has seq 6, expected 5");
    insta::assert_snapshot!(edited(&|l| { l.remove(0); }), @"event_sequence line 1: has seq 2, expected 1");
    insta::assert_snapshot!(edited(&|l| { let first = l[0].clone(); l.insert(0, first); }), @"event_sequence line 2: has seq 1, expected 2");
    insta::assert_snapshot!(edited(&|l| { l[3].insert(1, b' '); }), @"chain_broken line 5: prev is not the digest of the line before");
    insta::assert_snapshot!(edited(&|l| { l[11].pop(); }), @"chain_broken line 12: the log does not end with a newline");
    insta::assert_snapshot!(edited(&|l| l.push(b"\n".to_vec())), @"schema_invalid line 13: not an event: EOF while parsing a value at line 1 column 0");
    insta::assert_snapshot!(edited(&Vec::clear), @"chain_broken line 1: the log is empty");
    let other = sample::blocked().log();
    let first = other
        .split_inclusive(|b| *b == b'\n')
        .next()
        .unwrap()
        .to_vec();
    insta::assert_snapshot!(edited(&|l| l[0] = first.clone()), @"chain_broken line 2: prev is not the digest of the line before");
}

#[test]
fn only_a_torn_last_line_is_cut() {
    let good = lines();
    let whole = good.concat();
    let tail = recover_tail(&whole).unwrap();
    assert_eq!((tail.valid_len, tail.bytes_cut), (whole.len() as u64, 0));
    let before_last = whole.len() - good[11].len();
    for cut in before_last..whole.len() {
        let tail = recover_tail(&whole[..cut]).unwrap();
        assert_eq!(
            (tail.valid_len, tail.bytes_cut),
            (before_last as u64, (cut - before_last) as u64)
        );
        assert_eq!(tail.log.unwrap().events.len(), 11);
    }
    let mut torn = whole.clone();
    *torn.last_mut().unwrap() = b'x';
    torn.push(b'\n');
    assert_eq!(recover_tail(&torn).unwrap().valid_len, before_last as u64);
    let torn_first = recover_tail(&good[0][..9]).unwrap();
    assert_eq!(
        (torn_first.valid_len, torn_first.bytes_cut, torn_first.log),
        (0, 9, None)
    );
    let mut early = whole;
    early[good[0].len() + 5] ^= 1;
    assert!(recover_tail(&early).is_err());
}

proptest! {
    #[test]
    fn any_flipped_byte_changes_the_head_or_breaks_the_chain(at in any::<prop::sample::Index>(), xor in 1_u8..) {
        let bytes = sample::pass().log();
        let head = read_log(&bytes).unwrap().head;
        let mut bad = bytes.clone();
        let at = at.index(bad.len());
        bad[at] ^= xor;
        prop_assert!(read_log(&bad).map_or(true, |log| log.head != head));
    }

    #[test]
    fn no_bytes_make_it_panic_and_a_recovered_prefix_is_valid(bytes in proptest::collection::vec(any::<u8>(), 0..200), keep in 0_usize..4000) {
        let mut log = sample::pass().log();
        log.truncate(keep);
        log.extend(bytes);
        let _result = read_log(&log);
        if let Ok(tail) = recover_tail(&log) {
            let prefix = &log[..usize::try_from(tail.valid_len).unwrap()];
            prop_assert_eq!(read_log(prefix).ok(), tail.log);
        }
    }
}
