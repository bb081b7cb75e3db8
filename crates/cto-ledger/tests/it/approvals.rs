//! One grant, one run: whatever is tried, by however many.

use std::path::{Path, PathBuf};

use cto_contract::approval::{
    Bindings, DenialSchema, DenialStatement, ExecutionScope, GrantSchema, GrantStatement,
    RequestId, RequestOpened,
};
use cto_contract::ids::RunId;
use cto_contract::ledger::{Record, RunCreated};
use cto_contract::operator::OperatorChange::{Add, Revoke};
use cto_contract::words::{Lane, MutationMode, Presence, SandboxClass, Stage};
use cto_evidence::key::SigningKey;
use cto_ledger::{ConsumeError, Consumption, Ledger, Slot, check_decision};
use cto_rules::approval::ApprovalRefusal;
use cto_rules::approval::DecisionKind;
use cto_store::{LedgerInit, Store};
use cto_testkit::authenticator::{SoftKey, UP_UV};

use crate::home::{TestHome, at, digest};

fn id(n: u8) -> RequestId {
    RequestId::from_bytes([n; 10])
}

fn bindings(stage: Stage) -> Bindings {
    Bindings {
        task_id: "a".parse().unwrap(),
        contract_digest: digest(1),
        target_id: "app".to_owned(),
        target_head: "0123456789abcdef".to_owned(),
        baseline_tree_id: "0123456789abcdef0123456789abcdef01234567".parse().unwrap(),
        lane: Lane::Command,
        model: "none".to_owned(),
        identity_digest: digest(2),
        sandbox_class: SandboxClass::Full,
        stage,
        mutation_mode: MutationMode::CopiedFixture,
    }
}

/// Opens a request that ends at minute 100.
fn open(home: &TestHome, n: u8, stage: Stage) -> RequestOpened {
    let (bindings, ledger) = (bindings(stage), home.store.ledger_id().unwrap());
    let mut made = None;
    home.ledger(|l| {
        l.open_request(&bindings, at(100), |expires_at| {
            let opened = RequestOpened {
                request_id: id(n),
                ledger,
                request_digest: digest(n),
                sentence: bindings.sentence(expires_at),
                bindings: bindings.clone(),
                requester: "ivan(1000)".to_owned(),
                policy: None,
                records: Vec::new(),
                at: at(3),
                expires_at,
            };
            made = Some(opened.clone());
            Ok(opened)
        })
    })
    .unwrap();
    made.unwrap()
}

fn grant_of(opened: &RequestOpened, slot: Slot) -> GrantStatement {
    GrantStatement {
        schema: GrantSchema,
        ledger: slot.ledger,
        request_id: opened.request_id.clone(),
        request_digest: opened.request_digest.clone(),
        execution_scope: ExecutionScope,
        sentence: opened.sentence.clone(),
        bindings: opened.bindings.clone(),
        expires_at: opened.expires_at,
        requester: opened.requester.clone(),
        self_approved: true,
        shown_digest: digest(7),
        records: Vec::new(),
        signer: "olga".parse().unwrap(),
        slot: slot.nonce,
        at: slot.at,
    }
}

fn grant(home: &TestHome, opened: &RequestOpened, olga: &SoftKey, counter: u32) {
    let asked = home.ask(4, |slot| grant_of(opened, slot)).unwrap();
    home.enter(asked, olga, (UP_UV, counter), Presence::None, 5)
        .unwrap();
}

fn create(store: &Store, n: u32) -> (RunId, u64) {
    let run_id: RunId = format!("20260601T105222Z-a-{n:06}").parse().unwrap();
    let created = Record::RunCreated(RunCreated {
        run_id: run_id.clone(),
        case_id: "a".parse().unwrap(),
        backend: Lane::Command,
        stage: Stage::FIXTURE,
        started_at: at(6),
        title: "a run".to_owned(),
        conformance: false,
        fake_baseline: false,
    });
    let place = store.append(&created).unwrap().place();
    (run_id, place.seq)
}

type Twist<'a> = &'a dyn Fn(&mut Bindings);

fn consume(
    ledger: &Ledger<'_>,
    n: u8,
    (run_id, epoch): &(RunId, u64),
    minute: i64,
    twist: Twist<'_>,
) -> Vec<&'static str> {
    let mut asked = bindings(Stage::FIXTURE);
    twist(&mut asked);
    let consumed = ledger.consume(&Consumption {
        request_id: &id(n),
        run_id,
        epoch: *epoch,
        asked,
        now: at(minute),
    });
    match consumed {
        Ok(consumed) => {
            assert_eq!(consumed.id(), &id(n));
            Vec::new()
        }
        Err(ConsumeError::Refused(against)) => against.iter().map(|r| r.code().as_str()).collect(),
        Err(error) => panic!("{error}"),
    }
}

const SAME: Twist<'_> = &|_| {};

#[test]
fn a_grant_is_good_for_one_run_and_for_nothing_else() {
    let (home, olga) = TestHome::with_olga(1);
    let opened = open(&home, 1, Stage::FIXTURE);
    let run = create(&home.store, 1);
    let tries = |minute, twist: Twist<'_>| home.ledger(|l| consume(l, 1, &run, minute, twist));
    assert_eq!(tries(7, SAME), ["approval_missing"]);
    grant(&home, &opened, &olga, 2);
    let others: [Twist<'_>; 10] = [
        &|b| b.contract_digest = digest(9),
        &|b| b.target_head.push('0'),
        &|b| b.target_id.push('0'),
        &|b| b.lane = Lane::Fake,
        &|b| b.model = "other".to_owned(),
        &|b| b.identity_digest = digest(9),
        &|b| b.stage = Stage::COPIED_REPOSITORY,
        &|b| b.sandbox_class = SandboxClass::Weak,
        &|b| b.mutation_mode = MutationMode::None,
        &|b| b.task_id = "b".parse().unwrap(),
    ];
    for twist in others {
        assert_eq!(tries(7, twist), ["approval_scope_mismatch"]);
    }
    assert_eq!(tries(100, SAME), ["approval_expired"]);
    assert_eq!(tries(99, SAME), [""; 0]);
    assert_eq!(tries(99, SAME), ["approval_consumed"]);
    let another = create(&home.store, 2);
    let found = home.ledger(|l| consume(l, 1, &another, 99, SAME));
    assert_eq!(found, ["approval_consumed"]);
}

#[test]
fn a_denial_is_final() {
    let (home, olga) = TestHome::with_olga(1);
    let opened = open(&home, 1, Stage::FIXTURE);
    let deny = |slot: Slot| DenialStatement {
        schema: DenialSchema,
        ledger: slot.ledger,
        request_id: opened.request_id.clone(),
        request_digest: opened.request_digest.clone(),
        note: "not today".to_owned(),
        shown_digest: digest(7),
        signer: "olga".parse().unwrap(),
        slot: slot.nonce,
        at: slot.at,
    };
    let asked = home.ask(4, deny).unwrap();
    home.enter(asked, &olga, (UP_UV, 2), Presence::None, 5)
        .unwrap();
    let run = create(&home.store, 1);
    let found = home.ledger(|l| consume(l, 1, &run, 7, SAME));
    assert_eq!(found, ["approval_denied"]);
    // And nobody says yes after it: the request has its one decision.
    let asked = home.ask(6, |slot| grant_of(&opened, slot)).unwrap();
    let error = home.enter(asked, &olga, (UP_UV, 3), Presence::None, 7);
    assert_eq!(error.unwrap_err().code(), "store_conflict");
}

#[test]
fn a_key_that_was_revoked_since_opens_nothing() {
    let (home, olga) = TestHome::with_olga(1);
    let ivan = SoftKey::sk_ecdsa(2);
    home.change(Add, ("ivan", &ivan), ("olga", &olga), (UP_UV, 2))
        .unwrap();
    let opened = open(&home, 1, Stage::FIXTURE);
    grant(&home, &opened, &olga, 3);
    home.change(Revoke, ("olga", &olga), ("ivan", &ivan), (UP_UV, 1))
        .unwrap();
    let run = create(&home.store, 1);
    let found = home.ledger(|l| consume(l, 1, &run, 7, SAME));
    assert_eq!(found, ["approval_signature_invalid"]);
}

#[test]
fn a_plain_key_without_presence_opens_nothing_from_the_fourth_stage_on() {
    let (home, olga) = TestHome::with_olga(1);
    let plain = SoftKey::ed25519(2);
    home.change(Add, ("ivan", &plain), ("olga", &olga), (UP_UV, 2))
        .unwrap();
    let opened = open(&home, 1, Stage::DISPOSABLE);
    let by_ivan = |slot| GrantStatement {
        signer: "ivan".parse().unwrap(),
        ..grant_of(&opened, slot)
    };
    let asked = home.ask(4, by_ivan).unwrap();
    home.enter(asked, &plain, (0, 0), Presence::None, 5)
        .unwrap();
    let run = create(&home.store, 1);
    let stage = |b: &mut Bindings| b.stage = Stage::DISPOSABLE;
    let found = home.ledger(|l| consume(l, 1, &run, 7, &stage));
    assert_eq!(found, ["approval_presence_too_low"]);
}

#[test]
fn a_run_that_somebody_else_closed_has_lost_its_turn() {
    let (home, olga) = TestHome::with_olga(1);
    let opened = open(&home, 1, Stage::FIXTURE);
    grant(&home, &opened, &olga, 2);
    let (run_id, epoch) = create(&home.store, 1);
    let wrong = (run_id.clone(), epoch + 1);
    let found = home.ledger(|l| consume(l, 1, &wrong, 7, SAME));
    assert_eq!(found, ["approval_scope_mismatch"]);
    let sealed = cto_contract::ledger::Seal {
        run_id: run_id.clone(),
        at: at(6),
        status: cto_contract::words::RunStatus::Blocked,
        pack_digest: digest(5),
    };
    home.store.append(&Record::RunSealed(sealed)).unwrap();
    let found = home.ledger(|l| consume(l, 1, &(run_id, epoch), 7, SAME));
    assert_eq!(found, ["approval_scope_mismatch"]);
}

#[test]
fn a_grant_of_another_ledger_does_not_get_in() {
    let (home, olga) = TestHome::with_olga(1);
    let opened = open(&home, 1, Stage::FIXTURE);
    let asked = home.ask(4, |slot| GrantStatement {
        ledger: digest(8),
        ..grant_of(&opened, slot)
    });
    let entered = home.enter(asked.unwrap(), &olga, (UP_UV, 2), Presence::None, 5);
    assert_eq!(entered.unwrap_err().code(), "signature_other_ledger");
}

#[test]
fn a_grant_that_was_written_past_cto_is_no_grant() {
    let (home, olga) = TestHome::with_olga(1);
    let opened = open(&home, 1, Stage::FIXTURE);
    let asked = home.ask(4, |slot| grant_of(&opened, slot)).unwrap();
    // Signed by a key that nobody knows, and put there without being asked for.
    let eve = SoftKey::sk_ed25519(9);
    let armour = eve.sign("cto-approval", &asked.message, UP_UV, 1);
    let signature = cto_evidence::sshsig::SshSig::from_armour(&armour).unwrap();
    let forged = cto_evidence::signed::join(asked.statement, &signature, true).unwrap();
    home.store.append(&Record::RequestGranted(forged)).unwrap();
    let run = create(&home.store, 1);
    let error = home.ledger(|l| {
        l.consume(&Consumption {
            request_id: &id(1),
            run_id: &run.0,
            epoch: run.1,
            asked: bindings(Stage::FIXTURE),
            now: at(7),
        })
    });
    assert!(matches!(error, Err(ConsumeError::Ledger(_))), "{error:?}");
    drop(olga);
}

#[test]
fn every_request_has_a_sentence_of_its_own() {
    let (home, _) = TestHome::with_olga(1);
    let sentences: std::collections::BTreeSet<String> = (0..20)
        .map(|n| open(&home, n, Stage::FIXTURE).sentence)
        .collect();
    assert_eq!(sentences.len(), 20);
    assert!(sentences.iter().all(|s| s.is_ascii()));
}

#[test]
fn a_request_is_decided_once_by_one_who_may_and_in_time() {
    let (home, olga) = TestHome::with_olga(1);
    let opened = open(&home, 1, Stage::FIXTURE);
    let judge = |n: u8, who: &str, minute| {
        home.ledger(|l| {
            let authority = l.authority().unwrap();
            let who = who.parse().unwrap();
            let judged = home.store.transact(|tx| {
                check_decision(
                    tx,
                    &authority,
                    &id(n),
                    (&who, at(minute)),
                    DecisionKind::Grant,
                )
            });
            judged.map_or_else(|e| e.code(), |()| "ok")
        })
    };
    assert_eq!(judge(1, "olga", 10), "ok");
    assert_eq!(judge(2, "olga", 10), "request_unknown");
    assert_eq!(judge(1, "olga", 100), "request_expired");
    grant(&home, &opened, &olga, 2);
    assert_eq!(judge(1, "olga", 10), "request_granted");
}

const CHILD_PATH: &str = "CTO_TEST_TAKER_PATH";
const CHILD_NUMBER: &str = "CTO_TEST_TAKER_NUMBER";
/// Eight processes, 250 tries each: 2,000 in all.
const TAKERS: u32 = 8;
const TRIES: u32 = 250;

/// Tries to use the grant up again and again, each time as another run, and counts how often that worked.
fn try_again_and_again(path: &Path, taker: u32) -> usize {
    let init = LedgerInit {
        random: [1; 32],
        at: at(0),
    };
    let store = Store::open(&path.join("cto.db"), init).unwrap();
    let key = SigningKey::from_random(&[1; 32]);
    let config = path.join("config");
    let ledger = Ledger {
        store: &store,
        key: &key,
        home: path,
        config: &config,
        trusted: &[],
        second: None,
        path: String::new(),
    };
    let won = (0..TRIES).filter(|n| {
        let run = create(&store, 1000 * taker + n);
        let found = consume(&ledger, 1, &run, 7, SAME);
        assert!(
            found.is_empty() || found == ["approval_consumed"],
            "{found:?}"
        );
        found.is_empty()
    });
    won.count()
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts itself again: locks between processes differ from those between threads"
)]
fn of_two_thousand_tries_by_eight_processes_exactly_one_uses_the_grant_up() {
    let (home, olga) = TestHome::with_olga(1);
    let opened = open(&home, 1, Stage::FIXTURE);
    grant(&home, &opened, &olga, 2);
    let program = std::env::current_exe().unwrap();
    let children: Vec<_> = (0..TAKERS)
        .map(|number| {
            std::process::Command::new(&program)
                .args(["--exact", "approvals::one_process_tries", "--nocapture"])
                .env(CHILD_PATH, home.dir.path())
                .env(CHILD_NUMBER, number.to_string())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let state = home.ledger(|l| l.request(&id(1))).unwrap().unwrap();
    let (_, winner) = state.consumed.unwrap();
    let files = std::fs::read_dir(home.dir.path()).unwrap();
    let won: Vec<String> = files
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("won-"))
        .collect();
    assert_eq!(won.len(), 1, "{won:?}");
    assert!(winner.run_id.as_str().starts_with("20260601T105222Z-a-"));
    assert_eq!(home.store.verify_ledger().unwrap().broken, None);
}

/// One of the processes above; nothing when nobody says where.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test process has no other way to get its values"
)]
fn one_process_tries() {
    let Some(path) = std::env::var_os(CHILD_PATH).map(PathBuf::from) else {
        return;
    };
    let taker = std::env::var(CHILD_NUMBER).unwrap().parse().unwrap();
    for won in 0..try_again_and_again(&path, taker) {
        std::fs::write(path.join(format!("won-{taker}-{won}")), b"").unwrap();
    }
}

#[test]
fn every_refusal_has_its_blocker() {
    let refusals = [
        ApprovalRefusal::Missing { request_id: id(1) },
        ApprovalRefusal::Denied {
            by: "olga".parse().unwrap(),
        },
        ApprovalRefusal::Expired { at: at(1) },
    ];
    for refusal in refusals {
        assert_eq!(refusal.blocker().subject, "approval");
    }
}
