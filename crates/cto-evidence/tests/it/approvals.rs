//! Approvals in a log: told whole they are good; one that nobody gave, or that was given for something else, is found,
//! even when the pack is signed.

use cto_contract::addendum::{Body, Bound, Closeout, Outcome};
use cto_contract::approval::GrantStatement;
use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::eligibility::{Gate, GateOutcome};
use cto_contract::event::{Actor, Approval, ApprovalConsumed, EventKind};
use cto_contract::operator::Signed;
use cto_contract::report::Report;
use cto_contract::task::{ApprovalPolicy, TaskContract};
use cto_contract::verify::{OperatorStanding, VerifyReport};
use cto_contract::words::{ApprovalStatus, Lane, Presence, Stage};
use cto_evidence::canonical::{decision_id, digest_of, sha256};
use cto_evidence::verify::{VerifyOptions, verify};
use cto_testkit::authenticator::UP_UV;

use crate::addenda::{Records, body};
use crate::grants::{
    ID, approved, bindings, denial, grant_for, ivan, ledger, olga, operators_file, outcome, petra,
    pinned, requested as requested_by, requester, sign, told,
};
use crate::sample::{self, Pack, Plan, at, contract, decision, fact};
use crate::stranger::{agree, stranger};
use crate::{check, codes, known};

fn requested() -> EventKind {
    EventKind::ApprovalRequested(requested_by(None))
}

/// Whoever lies about an approval says too that no event is missing.
fn says_all_is_there(report: &mut Report) {
    report.checks.required_events_passed = Some(true);
    report.checks.missing_events.clear();
}

fn says_granted(report: &mut Report) {
    says_all_is_there(report);
    report.authority.approval_status = ApprovalStatus::Granted;
    report.authority.approval_id = Some(ID.to_owned());
}

fn says_requested(report: &mut Report) {
    says_all_is_there(report);
    report.authority.approval_status = ApprovalStatus::Requested;
    report.authority.approval_id = None;
}

/// The decision says that an approval is needed.
fn needing(mut plan: Plan) -> Plan {
    for (_, kind) in &mut plan.events {
        if let EventKind::EligibilityDecided(data) = kind {
            let facts = [Gate::AllowedPaths, Gate::Approval].map(|gate| fact(gate, None));
            data.decision = decision(facts.into());
        }
    }
    plan
}

/// A run that was blocked because it has no approval.
fn lacking() -> Plan {
    let blockers = vec![Blocker::new(
        BlockerCode::ApprovalMissing,
        "approval",
        "it is required",
    )];
    let mut plan = sample::blocked();
    for (_, kind) in &mut plan.events {
        if let EventKind::EligibilityDecided(data) = kind {
            let refusal = blockers.first().cloned();
            data.decision = decision(vec![fact(Gate::Approval, refusal)]);
        } else if let EventKind::BackendGateBlocked(data) = kind {
            data.blockers = blockers.clone();
        } else if let EventKind::RunCompleted(data) = kind {
            data.failure_reason = Some(blockers[0].failure_reason(Lane::Fake));
            data.blockers = blockers.clone();
        }
    }
    plan
}

/// Puts events where approvals stand: before the backend, or before its gate.
fn sealed(mut plan: Plan, approvals: &[EventKind], edit: fn(&mut Report)) -> Pack {
    let is_next = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::BackendStarted(_) | EventKind::BackendGateBlocked(_)
        )
    };
    let place = plan.events.iter().position(|(_, k)| is_next(k)).unwrap();
    let lines = approvals.iter().map(|kind| (Actor::Harness, kind.clone()));
    plan.events.splice(place..place, lines);
    plan.edit = edit;
    plan.seal()
}

#[test]
fn an_approval_that_is_told_whole_and_a_run_that_waits_for_one_are_good() {
    let whole = approved();
    let packs = [
        sealed(needing(sample::pass()), &whole, |_| {}),
        sealed(lacking(), &[], |_| {}),
        sealed(lacking(), &[requested()], |_| {}),
    ];
    let packs = packs.map(|pack| (String::from("good"), pack));
    agree(&packs, true);
}

#[test]
fn an_approval_that_nobody_gave_is_found_also_by_a_stranger() {
    let whole = approved();
    let turned = [whole[2].clone(), whole[1].clone(), whole[0].clone()];
    let pass = || needing(sample::pass());
    let cases: [(&str, Pack, &[&str]); 9] = [
        (
            "nobody asked for it",
            sealed(sample::pass(), &whole, says_granted),
            &["event_order", "report_mismatch"],
        ),
        (
            "it is only claimed",
            sealed(sample::pass(), &[], says_granted),
            &["report_mismatch"],
        ),
        (
            "it was needed and is not there",
            sealed(pass(), &[], says_requested),
            &["event_order", "report_mismatch"],
        ),
        (
            "it was needed and is only claimed",
            sealed(pass(), &[], says_granted),
            &["event_order", "report_mismatch"],
        ),
        (
            "it was not consumed",
            sealed(pass(), &whole[..2], says_granted),
            &["event_order", "report_mismatch"],
        ),
        (
            "it was not asked for first",
            sealed(pass(), &whole[1..], says_granted),
            &["event_order", "report_mismatch", "approval_invalid"],
        ),
        (
            "out of order",
            sealed(pass(), &turned, says_granted),
            &["event_order", "report_mismatch"],
        ),
        (
            "granted to a run that had none",
            sealed(lacking(), &whole, says_granted),
            &["event_order", "report_mismatch", "approval_invalid"],
        ),
        (
            "the report hides it",
            sealed(pass(), &whole, says_requested),
            &["report_mismatch"],
        ),
    ];
    let packs = cases.map(|(name, pack, expected)| {
        assert_eq!(codes(&check(&pack)), expected, "{name}");
        (name.to_owned(), pack)
    });
    agree(&packs, false);
}

/// The sample run with another contract, which its events and its decision name.
fn under(contract: &TaskContract) -> Plan {
    let mut plan = sample::pass();
    plan.contract = contract.clone();
    for (_, kind) in &mut plan.events {
        if let EventKind::TaskContractCreated(data) = kind {
            data.contract = contract.clone();
            data.contract_digest = digest_of(contract).unwrap();
        } else if let EventKind::EligibilityDecided(data) = kind {
            data.decision.contract_digest = digest_of(contract).unwrap();
            data.decision.decision_id = decision_id(&data.decision.basis());
        }
    }
    plan
}

fn asking(policy: Option<ApprovalPolicy>) -> TaskContract {
    TaskContract {
        approval_required: true,
        approval_policy: policy,
        ..contract()
    }
}

/// A pass that these approvals let happen, under a contract that asks for one.
fn pass_with(policy: Option<ApprovalPolicy>, approvals: &[EventKind]) -> Pack {
    let contract = asking(policy);
    let mut plan = needing(under(&contract));
    for (_, kind) in &mut plan.events {
        if let EventKind::EligibilityDecided(data) = kind {
            data.decision.contract_digest = digest_of(&contract).unwrap();
            data.decision.decision_id = decision_id(&data.decision.basis());
        }
    }
    sealed(plan, approvals, |_| {})
}

fn for_contract(policy: Option<ApprovalPolicy>) -> GrantStatement {
    grant_for(bindings(&asking(policy)))
}

fn by_olga(grant: GrantStatement) -> Signed<GrantStatement> {
    sign(grant, &olga(), (UP_UV, 3))
}

fn strictly(pack: &Pack) -> VerifyReport {
    let options = VerifyOptions {
        pinned: Some(pinned()),
        ..known(pack)
    };
    verify(&pack.path, &options)
}

fn four_eyes() -> Option<ApprovalPolicy> {
    Some(ApprovalPolicy {
        approvers: vec!["olga".to_owned(), "ivan".to_owned()],
        four_eyes: true,
        quorum: 1,
    })
}

/// What a stranger says of these packs, with operators and ledger that he got elsewhere.
fn stranger_with_operators(packs: &[&Pack]) -> (Option<i32>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("operators");
    crate::forge::put(&file, operators_file().as_bytes());
    let paths: Vec<_> = packs.iter().map(|p| p.path.as_path()).collect();
    let ledger = ledger().to_string();
    let named = ["--operators", file.to_str().unwrap(), "--ledger", &ledger];
    stranger(&paths, &named)
}

#[test]
fn who_approved_is_known_only_by_operators_and_a_ledger_that_were_named() {
    let alone = pass_with(None, &told(None, by_olga(for_contract(None))));
    let asked = sign(requester("ivan"), &ivan(), (UP_UV, 1));
    let with_four_eyes = GrantStatement {
        self_approved: false,
        ..for_contract(four_eyes())
    };
    let both = pass_with(four_eyes(), &told(Some(asked), by_olga(with_four_eyes)));
    let plain = GrantStatement {
        signer: "petra".parse().unwrap(),
        ..for_contract(None)
    };
    let plain = pass_with(None, &told(None, sign(plain, &petra(), (0, 0))));
    for (pack, presence) in [
        (&alone, Presence::Uv),
        (&both, Presence::Uv),
        (&plain, Presence::Claimed),
    ] {
        let report = check(pack);
        assert_eq!(report.errors, []);
        assert_eq!(report.operator, OperatorStanding::Unknown);
        let report = strictly(pack);
        assert_eq!(report.errors, []);
        assert_eq!(report.operator, OperatorStanding::Known);
        assert_eq!(report.signatures.last().unwrap().presence, presence);
    }
    assert_eq!(
        check(&sample::pass().seal()).operator,
        OperatorStanding::None
    );
    let (code, said) = stranger_with_operators(&[&alone, &both, &plain]);
    assert_eq!((code, said), (Some(0), vec!["ok".to_owned(); 3]));
}

#[test]
fn a_signer_whom_nobody_named_is_a_stranger_and_nothing_worse() {
    let nobody = sample::pass().seal();
    let unknown = sign(for_contract(None), &ivan(), (UP_UV, 3));
    let renamed = pass_with(None, &told(None, unknown));
    let elsewhere = GrantStatement {
        ledger: sha256(b"another"),
        ..for_contract(None)
    };
    let elsewhere = pass_with(None, &told(None, by_olga(elsewhere)));
    let packs = [&nobody, &renamed, &elsewhere];
    for pack in packs {
        assert_eq!(check(pack).errors, []);
        let report = strictly(pack);
        assert_eq!(codes(&report), ["operator_unknown"]);
        assert_eq!(report.integrity.as_str(), "ok");
        assert_ne!(report.operator, OperatorStanding::Known);
    }
    let (code, said) = stranger_with_operators(&packs);
    assert_eq!(code, Some(5));
    for line in said {
        assert!(line.starts_with("operator_unknown"), "{line}");
    }
    // A plain key whose line claims no presence is worth less than the record says.
    let mut weaker = pinned();
    let plain = GrantStatement {
        signer: "petra".parse().unwrap(),
        ..for_contract(None)
    };
    let plain = pass_with(None, &told(None, sign(plain, &petra(), (0, 0))));
    weaker
        .keys
        .iter_mut()
        .for_each(|key| key.claims_presence = false);
    let options = VerifyOptions {
        pinned: Some(weaker),
        ..known(&plain)
    };
    assert_eq!(codes(&verify(&plain.path, &options)), ["approval_invalid"]);
}

/// Edits one event of an approval.
type Edit = fn(&mut Approval, &mut Approval, &mut ApprovalConsumed);

fn edited(edit: Edit) -> Pack {
    let [requested, granted, consumed] = told(None, by_olga(for_contract(None)));
    let (
        EventKind::ApprovalRequested(mut requested),
        EventKind::ApprovalGranted(mut granted),
        EventKind::ApprovalConsumed(mut consumed),
    ) = (requested, granted, consumed)
    else {
        unreachable!()
    };
    edit(&mut requested, &mut granted, &mut consumed);
    let events = [
        EventKind::ApprovalRequested(requested),
        EventKind::ApprovalGranted(granted),
        EventKind::ApprovalConsumed(consumed),
    ];
    pass_with(None, &events)
}

#[test]
fn events_that_say_other_things_than_the_grant_are_found_also_by_a_stranger() {
    let edits: [(&str, Edit); 20] = [
        ("no grant at all", |_, g, _| g.grant = None),
        ("another actor", |_, g, _| g.actor = "ivan".to_owned()),
        ("another time", |_, g, _| g.timestamp = at(0)),
        ("another expiry", |_, g, _| g.expiry = Some(at(9999))),
        ("another request", |_, g, _| {
            g.request_id = "rq-bbbbbbbbbbbbbbbb".parse().ok();
        }),
        ("a wider scope", |_, g, _| g.scope = "*".to_owned()),
        ("a note", |_, g, _| g.note = Some("x".to_owned())),
        ("another requester", |r, _, _| {
            r.actor = "root(0)".to_owned()
        }),
        ("asked for something else", |r, _, _| {
            r.request_id = "rq-bbbbbbbbbbbbbbbb".parse().ok();
        }),
        ("asked for longer", |r, _, _| r.expiry = None),
        ("a request that decides", |r, g, _| {
            r.grant = g.grant.clone()
        }),
        ("used by another name", |_, _, c| {
            c.approval_id = "rq-bbbbbbbbbbbbbbbb".to_owned();
        }),
        ("used by another operator", |_, _, c| {
            c.actor = "ivan".to_owned()
        }),
        ("used too late", |_, _, c| c.timestamp = at(3600)),
        ("used in no ledger", |_, _, c| c.ledger_seq = 0),
        ("an edited sentence", |_, g, _| {
            let grant = g.grant.as_mut().unwrap();
            grant.statement.sentence = grant.statement.sentence.replace("one run", "two runs");
        }),
        ("an edited stage", |_, g, _| {
            g.grant.as_mut().unwrap().statement.bindings.stage = Stage::COPIED_REPOSITORY;
        }),
        ("more presence than there was", |_, g, _| {
            g.grant.as_mut().unwrap().signature.presence = Presence::Up;
        }),
        ("a cut signature", |_, g, _| {
            let armour = &mut g.grant.as_mut().unwrap().signature.armour;
            *armour = armour.replacen("\n", "", 1);
        }),
        ("another key beside it", |_, g, _| {
            g.grant.as_mut().unwrap().signature.public_key = ivan().public_line();
        }),
    ];
    let packs = edits.map(|(name, edit)| {
        let pack = edited(edit);
        assert_eq!(codes(&check(&pack)), ["approval_invalid"], "{name}");
        (name.to_owned(), pack)
    });
    agree(&packs, false);
}

#[test]
fn a_grant_for_something_else_or_by_somebody_who_may_not_is_found_also_by_a_stranger() {
    let bound = |edit: &dyn Fn(&mut cto_contract::approval::Bindings)| {
        let mut bindings = bindings(&asking(None));
        edit(&mut bindings);
        pass_with(None, &told(None, by_olga(grant_for(bindings))))
    };
    let policy = |approvers: &[&str], four_eyes, quorum| {
        Some(ApprovalPolicy {
            approvers: approvers.iter().map(|a| (*a).to_owned()).collect(),
            four_eyes,
            quorum,
        })
    };
    let under = |policy: Option<ApprovalPolicy>, asked: Option<&str>| {
        let grant = GrantStatement {
            self_approved: asked != Some("ivan"),
            ..for_contract(policy.clone())
        };
        let key = if asked == Some("ivan") {
            ivan()
        } else {
            olga()
        };
        let asked = asked.map(|name| sign(requester(name), &key, (UP_UV, 1)));
        pass_with(policy, &told(asked, by_olga(grant)))
    };
    let other_asked = sign(
        cto_contract::approval::RequesterStatement {
            request_digest: sha256(b"another"),
            ..requester("ivan")
        },
        &ivan(),
        (UP_UV, 1),
    );
    let tree: cto_contract::ids::TreeId = "2".repeat(40).parse().unwrap();
    let packs = [
        (
            "another contract",
            bound(&|b| b.contract_digest = sha256(b"x")),
        ),
        ("another target", bound(&|b| b.target_id = "x".to_owned())),
        ("another head", bound(&|b| b.target_head = "2".repeat(40))),
        (
            "another tree",
            bound(&|b| b.baseline_tree_id = tree.clone()),
        ),
        ("another lane", bound(&|b| b.lane = Lane::Codex)),
        ("another model", bound(&|b| b.model = "m".to_owned())),
        (
            "another identity",
            bound(&|b| b.identity_digest = sha256(b"x")),
        ),
        (
            "another sandbox",
            bound(&|b| b.sandbox_class = cto_contract::words::SandboxClass::Weak),
        ),
        (
            "another stage",
            bound(&|b| b.stage = Stage::COPIED_REPOSITORY),
        ),
        (
            "another mode",
            bound(&|b| b.mutation_mode = cto_contract::words::MutationMode::SandboxRepo),
        ),
        ("not an approver", under(policy(&["ivan"], false, 1), None)),
        ("a quorum", under(policy(&[], false, 2), None)),
        (
            "nobody is known to have asked",
            under(policy(&[], true, 1), None),
        ),
        ("the same eyes", under(policy(&[], true, 1), Some("olga"))),
        (
            "given after its end",
            pass_with(
                None,
                &told(
                    None,
                    by_olga(GrantStatement {
                        at: at(3600),
                        ..for_contract(None)
                    }),
                ),
            ),
        ),
        (
            "says that another asked",
            pass_with(
                None,
                &told(
                    None,
                    by_olga(GrantStatement {
                        self_approved: false,
                        ..for_contract(None)
                    }),
                ),
            ),
        ),
        (
            "somebody asked for something else",
            pass_with(
                None,
                &told(
                    Some(other_asked),
                    by_olga(GrantStatement {
                        self_approved: false,
                        ..for_contract(None)
                    }),
                ),
            ),
        ),
        (
            "a counter that did not rise",
            pass_with(
                None,
                &told(
                    Some(sign(requester("olga"), &olga(), (UP_UV, 3))),
                    by_olga(for_contract(None)),
                ),
            ),
        ),
    ];
    let packs = packs.map(|(name, pack)| {
        assert_eq!(codes(&check(&pack)), ["approval_invalid"], "{name}");
        (name.to_owned(), pack)
    });
    agree(&packs, false);
}

#[test]
fn a_decision_that_lifts_what_the_contract_asks_for_is_found_also_by_a_stranger() {
    let lifted = under(&asking(None)).seal();
    let mut plan = under(&asking(None));
    for (_, kind) in &mut plan.events {
        if let EventKind::EligibilityDecided(data) = kind {
            let mut not_asked = fact(Gate::Approval, None);
            not_asked.outcome = GateOutcome::NotRequired;
            let digest = data.decision.contract_digest.clone();
            data.decision = decision(vec![fact(Gate::AllowedPaths, None), not_asked]);
            data.decision.contract_digest = digest;
            data.decision.decision_id = decision_id(&data.decision.basis());
        }
    }
    let packs = [
        ("no gate", lifted),
        ("a gate that asks for nothing", plan.seal()),
    ];
    let packs = packs.map(|(name, pack)| {
        assert_eq!(codes(&check(&pack)), ["approval_invalid"], "{name}");
        (name.to_owned(), pack)
    });
    agree(&packs, false);
}

#[test]
fn a_denial_counts_by_its_signature_too() {
    let denied = |edit: fn(&mut Approval)| {
        let signed = sign(denial(), &olga(), (UP_UV, 3));
        let mut event = Approval {
            actor: "olga".to_owned(),
            timestamp: signed.statement.at,
            note: Some(signed.statement.note.clone()),
            denial: Some(Box::new(signed)),
            ..requested_by(None)
        };
        edit(&mut event);
        let mut plan = lacking();
        for (_, kind) in &mut plan.events {
            let blocker = Blocker::new(BlockerCode::ApprovalDenied, "approval", "no");
            if let EventKind::EligibilityDecided(data) = kind {
                data.decision = decision(vec![fact(Gate::Approval, Some(blocker))]);
            } else if let EventKind::BackendGateBlocked(data) = kind {
                data.blockers = vec![blocker];
            } else if let EventKind::RunCompleted(data) = kind {
                data.failure_reason = Some(blocker.failure_reason(Lane::Fake));
                data.blockers = vec![blocker];
            }
        }
        sealed(
            plan,
            &[requested(), EventKind::ApprovalDenied(event)],
            |_| {},
        )
    };
    agree(&[("right".to_owned(), denied(|_| {}))], true);
    let wrong = [
        ("nobody signed", denied(|d| d.denial = None)),
        ("another note", denied(|d| d.note = Some("so".to_owned()))),
        ("another actor", denied(|d| d.actor = "ivan".to_owned())),
        (
            "an edited note",
            denied(|d| {
                d.note = Some("so".to_owned());
                d.denial.as_mut().unwrap().statement.note = "so".to_owned();
            }),
        ),
    ];
    let wrong = wrong.map(|(name, pack)| {
        assert_eq!(codes(&check(&pack)), ["approval_invalid"], "{name}");
        (name.to_owned(), pack)
    });
    agree(&wrong, false);
}

#[test]
fn an_outcome_and_a_closeout_hold_what_was_signed_also_for_a_stranger() {
    let run = || {
        let grant = by_olga(for_contract(None));
        (pass_with(None, &told(None, grant.clone())), grant)
    };
    let closeout = |pack: &Pack, request: Option<Bound>, grant: Option<Bound>, outcome: Bound| {
        Body::Closeout(Box::new(Closeout {
            request,
            grant,
            run: Bound {
                id: pack.sealed.report.run.run_id.to_string(),
                digest: pack.sealed.pack_digest.clone(),
            },
            landing: None,
            proof: None,
            outcome: Some(outcome),
            validation: None,
        }))
    };
    let named = |grant: &Signed<GrantStatement>| {
        let request = Bound {
            id: ID.to_owned(),
            digest: grant.statement.request_digest.clone(),
        };
        let digest = digest_of(grant).unwrap();
        let id = "ledger:7".to_owned();
        (Some(request), Some(Bound { id, digest }))
    };
    let (good, grant) = run();
    let mut records = Records::of(&good);
    let accepted = sign(outcome(&good, Outcome::Accepted), &olga(), (UP_UV, 4));
    let first = records.add(body(accepted));
    let (request, bound) = named(&grant);
    records.add(closeout(&good, request, bound, first));
    let report = strictly(&good);
    assert_eq!(report.errors, []);
    assert_eq!(report.signatures.len(), 2);
    let (code, said) = stranger_with_operators(&[&good]);
    assert_eq!((code, said), (Some(0), vec!["ok".to_owned()]));

    let outcome_with = |edit: &dyn Fn(&Pack) -> Body| {
        let (pack, _) = run();
        Records::of(&pack).add(edit(&pack));
        pack
    };
    let accepted = |pack: &Pack| sign(outcome(pack, Outcome::Accepted), &olga(), (UP_UV, 4));
    let closing = |request_wrong: bool| {
        let (pack, grant) = run();
        let mut records = Records::of(&pack);
        let first = records.add(body(accepted(&pack)));
        let (request, mut bound) = named(&grant);
        if !request_wrong {
            bound = Some(Bound {
                id: "ledger:7".to_owned(),
                digest: sha256(b"another"),
            });
        }
        records.add(closeout(
            &pack,
            request.filter(|_| !request_wrong),
            bound,
            first,
        ));
        pack
    };
    let blocked = sample::blocked().seal();
    Records::of(&blocked).add(body(accepted(&blocked)));
    let wrong = [
        (
            "a reject turned round",
            outcome_with(&|pack| {
                let signed = sign(outcome(pack, Outcome::Rejected), &olga(), (UP_UV, 4));
                let Body::Outcome {
                    operator,
                    presence,
                    custody,
                    note,
                    signature,
                    signed,
                    ..
                } = body(signed)
                else {
                    unreachable!()
                };
                Body::Outcome {
                    outcome: Outcome::Accepted,
                    operator,
                    presence,
                    custody,
                    note,
                    signature,
                    signed,
                }
            }),
        ),
        (
            "an edited statement",
            outcome_with(&|pack| {
                let mut signed = sign(outcome(pack, Outcome::Rejected), &olga(), (UP_UV, 4));
                signed.statement.outcome = Outcome::Accepted;
                body(signed)
            }),
        ),
        (
            "another pack",
            outcome_with(&|pack| {
                let mut statement = outcome(pack, Outcome::Accepted);
                statement.pack_digest = sha256(b"another");
                body(sign(statement, &olga(), (UP_UV, 4)))
            }),
        ),
        (
            "an old counter",
            outcome_with(&|pack| body(sign(outcome(pack, Outcome::Accepted), &olga(), (UP_UV, 3)))),
        ),
        (
            "another ledger",
            outcome_with(&|pack| {
                let mut statement = outcome(pack, Outcome::Accepted);
                statement.ledger = sha256(b"another");
                body(sign(statement, &olga(), (UP_UV, 4)))
            }),
        ),
        ("another grant", closing(false)),
        ("no request", closing(true)),
        ("accepted without a pass", blocked),
    ];
    let wrong = wrong.map(|(name, pack)| {
        assert_eq!(codes(&check(&pack)), ["addendum_invalid"], "{name}");
        (name.to_owned(), pack)
    });
    agree(&wrong, false);
}
