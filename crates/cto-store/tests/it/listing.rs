//! Listing, filtering, paging and finding.

use cto_contract::ids::Digest;
use cto_contract::words::{Lane, RunStatus};
use cto_store::{Counts, Filter, OwnRuns, Page, RunRow, RunSealed, State, Store};

use crate::sample::{created, home, sealed, store, time};

fn pages(store: &Store, filter: &Filter, limit: u32) -> Vec<RunRow> {
    let mut page = Page::first(limit);
    let mut rows = Vec::new();
    loop {
        let listing = store.list(filter, &page).unwrap();
        assert!(listing.rows.len() <= limit as usize);
        rows.extend(listing.rows);
        let Some(next) = listing.next else {
            return rows;
        };
        // What a person hands back is the text.
        page.after = Some(next.to_string().parse().unwrap());
    }
}

/// Thirty runs, three of them in each second, a third still running.
fn thirty(store: &Store) -> Vec<RunRow> {
    let mut rows = Vec::new();
    for number in 0..30 {
        let run = created(number, i64::from(number / 3));
        store.run_created(&run).unwrap();
        match number % 3 {
            0 => drop(store.run_sealed(&sealed(&run, RunStatus::Pass)).unwrap()),
            1 => drop(store.run_sealed(&sealed(&run, RunStatus::Blocked)).unwrap()),
            _ => {}
        }
        rows.push(store.get(&run.run_id).unwrap().unwrap());
    }
    rows.sort_by(|a, b| (b.started_at, &b.run_id).cmp(&(a.started_at, &a.run_id)));
    rows
}

#[test]
fn pages_of_any_size_give_every_run_once_and_newest_first() {
    let (_dir, path) = home();
    let store = store(&path);
    let all = thirty(&store);
    for limit in [1, 2, 3, 7, 29, 30, 31] {
        assert_eq!(
            pages(&store, &Filter::default(), limit),
            all,
            "{limit} a page"
        );
    }
    let no_rows_asked = store.list(&Filter::default(), &Page::first(0)).unwrap();
    assert_eq!(no_rows_asked.rows.len(), 1, "a page always goes on");
}

#[test]
fn every_filter_gives_what_a_look_at_each_row_would() {
    let (_dir, path) = home();
    let store = store(&path);
    let all = thirty(&store);
    let states = [
        None,
        Some(State::Running),
        Some(State::Pass),
        Some(State::Fail),
        Some(State::Blocked),
    ];
    let prefixes = [
        None,
        Some("2026"),
        Some("20260601T105223Z"),
        Some(all[4].run_id.as_str()),
        Some("zz"),
        Some("%"),
        Some(""),
    ];
    for state in states {
        for case in [None, Some("even"), Some("none")] {
            for backend in [None, Some(Lane::Codex), Some(Lane::Pi)] {
                for prefix in prefixes {
                    let filter = Filter {
                        state,
                        case_id: case.map(|case| case.parse().unwrap()),
                        backend,
                        prefix: prefix.map(str::to_owned),
                    };
                    let expected: Vec<RunRow> = all
                        .iter()
                        .filter(|row| {
                            state.is_none_or(|s| {
                                row.status.map_or("running", |s| s.as_str()) == s.as_str()
                            })
                        })
                        .filter(|row| case.is_none_or(|case| row.case_id.as_str() == case))
                        .filter(|row| backend.is_none_or(|backend| row.backend == backend))
                        .filter(|row| {
                            prefix.is_none_or(|prefix| row.run_id.as_str().starts_with(prefix))
                        })
                        .cloned()
                        .collect();
                    assert_eq!(pages(&store, &filter, 4), expected, "{filter:?}");
                }
            }
        }
    }
}

#[test]
fn counts_follow_every_change() {
    let (_dir, path) = home();
    let store = store(&path);
    assert_eq!(store.counts().unwrap().total(), 0);
    thirty(&store);
    assert_eq!(
        store.counts().unwrap(),
        Counts {
            running: 10,
            pass: 10,
            fail: 0,
            blocked: 10
        }
    );
    assert_eq!(store.unsealed().unwrap().len(), 10);
    let elsewhere = created(500, 90);
    store
        .index_pack(&sealed(&elsewhere, RunStatus::Fail), time(95))
        .unwrap();
    store
        .index_pack(&sealed(&elsewhere, RunStatus::Fail), time(95))
        .unwrap();
    assert_eq!(
        store.counts().unwrap(),
        Counts {
            running: 10,
            pass: 10,
            fail: 1,
            blocked: 10
        }
    );
    assert_eq!(
        store.unsealed().unwrap().len(),
        10,
        "a pack of elsewhere is not in the ledger"
    );
}

#[test]
fn a_prefix_finds_the_runs_that_begin_with_it() {
    let (_dir, path) = home();
    let store = store(&path);
    let all = thirty(&store);
    let find = |prefix: &str, limit| store.find_prefix(prefix, limit).unwrap().len();
    assert_eq!(find("2026", 100), 30);
    assert_eq!(find("2026", 2), 2);
    assert_eq!(find("20260601T105223Z", 100), 3);
    assert_eq!(
        store.find_prefix(all[3].run_id.as_str(), 2).unwrap(),
        [all[3].run_id.clone()]
    );
    for none in ["2027", "%", "latest", "ü", "20260601T105223Z-a-000003x"] {
        assert_eq!(find(none, 100), 0, "{none}");
    }
    assert_eq!(find("", 100), 30);
    assert_eq!(store.get(&created(999, 0).run_id).unwrap(), None);
}

#[test]
fn texts_in_the_index_are_short_and_harmless() {
    let (_dir, path) = home();
    let store = store(&path);
    let mut run = created(1, 0);
    run.title = format!("\u{1b}[31m\0{}", "x".repeat(100_000));
    store.run_created(&run).unwrap();
    let mut pack = sealed(&run, RunStatus::Fail);
    pack.failure_reason = Some("line\nline".repeat(1000));
    store.run_sealed(&pack).unwrap();
    let row = store.get(&run.run_id).unwrap().unwrap();
    assert!(
        row.title.starts_with("\\u{1b}[31m\\u{0}xxx") && row.title.chars().count() == 201,
        "{}",
        row.title
    );
    assert!(row.failure_reason.unwrap().starts_with("line\\nline"));
}

#[test]
fn the_last_run_is_the_ledgers_whatever_date_a_pack_carries() {
    let (_dir, path) = home();
    let store = store(&path);
    let repository = Digest::from_bytes(&[3; 32]);
    let (first, second, third) = (created(1, 50), created(2, 10), created(3, 20));
    store.run_created_on(&first, &repository).unwrap();
    store.run_sealed(&sealed(&first, RunStatus::Pass)).unwrap();
    store.run_created(&second).unwrap();
    store
        .run_created_on(&third, &Digest::from_bytes(&[4; 32]))
        .unwrap();
    let stranger = sealed(&created(9, 1_000_000_000), RunStatus::Pass);
    store.index_pack(&stranger, time(60)).unwrap();
    let last = |which: OwnRuns| {
        let found = store.own_runs(&which, None, 5).unwrap();
        found
            .into_iter()
            .map(|(_, id)| id.as_str()[19..].to_owned())
            .collect::<Vec<_>>()
    };
    let check = |store: &Store| {
        assert_eq!(last(OwnRuns::All), ["000003", "000002", "000001"]);
        assert_eq!(last(OwnRuns::OfRepository(repository.clone())), ["000001"]);
        assert_eq!(last(OwnRuns::OfNoRepository), ["000002"]);
        let rows = store
            .list(&Filter::default(), &Page::first(9))
            .unwrap()
            .rows;
        let own: Vec<_> = rows.iter().map(|r| (r.of_this_home, r.listed_at)).collect();
        let expected = [
            (false, time(60)),
            (true, time(50)),
            (true, time(20)),
            (true, time(10)),
        ];
        assert_eq!(own, expected, "a pack of 2058 stands where it came in");
    };
    check(&store);
    let mut packs = vec![stranger, sealed(&first, RunStatus::Pass)];
    packs[1].repository = Some(repository.clone());
    packs.push(sealed(&second, RunStatus::Pass));
    packs.push(RunSealed {
        repository: Some(Digest::from_bytes(&[4; 32])),
        ..sealed(&third, RunStatus::Pass)
    });
    store.rebuild_index(packs, time(60)).unwrap();
    check(&store);
    let page = store.own_runs(&OwnRuns::All, None, 2).unwrap();
    let rest = store.own_runs(&OwnRuns::All, Some(page[1].0), 2).unwrap();
    assert_eq!(rest[0].1, first.run_id, "pages follow each other");
}
