//! The signed records beside a pack: numbered, chained, about this pack, by a key that counts, each in its place.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::Path;

use cto_contract::addendum::{Addendum, Body, Bound, Closeout, Outcome, PAYLOAD_TYPE, ProofFile};
use cto_contract::ids::{CommitId, Digest, RunId};
use cto_contract::text;
use cto_contract::trust::Origin;
use cto_contract::verify::{SignedKind, VerifyCode};
use cto_contract::words::RunStatus;

use super::VerifyOptions;
use super::approval::Granted;
use super::findings::Findings;
use super::signatures::Signatures;
use super::{origin, statement};
use crate::canonical::{digest_of, sha256, to_canonical};
use crate::dsse::open_envelope;
use crate::key::PublicKey;
use crate::pack::{PackDir, PackFile};

const CODE: VerifyCode = VerifyCode::AddendumInvalid;
/// Most addenda of one pack.
const ADDENDA_MAX: usize = 9999;
/// Largest addendum.
const ADDENDUM_BYTES_MAX: u64 = 1 << 20;

/// What every addendum must agree with.
pub(super) struct Pack<'a> {
    pub(super) run_id: &'a RunId,
    pub(super) pack_digest: &'a Digest,
    pub(super) signer: &'a PublicKey,
    pub(super) status: RunStatus,
    /// The grant of its run.
    pub(super) granted: Option<&'a Granted>,
}

/// Checks a directory of addenda. One that was not asked for by name may be absent. True when there was one.
pub(super) fn check(
    (dir, is_asked_for): (&Path, bool),
    pack: &Pack<'_>,
    options: &VerifyOptions,
    signatures: &mut Signatures<'_>,
    findings: &mut Findings,
) -> bool {
    let opened = match PackDir::open(dir) {
        Ok(opened) => opened,
        Err(e) if e.kind() == io::ErrorKind::NotFound && !is_asked_for => return false,
        Err(e) => {
            findings.file(CODE, &dir.to_string_lossy(), e.to_string());
            return true;
        }
    };
    let listing = opened.walk();
    for problem in listing.problems {
        findings.file(
            CODE,
            problem.file.as_deref().unwrap_or("."),
            problem.message,
        );
    }
    if listing.files.len() > ADDENDA_MAX {
        findings.file(CODE, ".", format!("more than {ADDENDA_MAX} addenda"));
        return true;
    }
    let read = |file: &PackFile| -> Result<Vec<u8>, String> {
        if file.size > ADDENDUM_BYTES_MAX {
            return Err(format!(
                "{} bytes, more than {ADDENDUM_BYTES_MAX}",
                file.size
            ));
        }
        let mut bytes = Vec::new();
        let reader = opened.open_listed(file).map_err(|e| e.message)?;
        reader
            .take(ADDENDUM_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(|e| e.to_string())?;
        Ok(bytes)
    };
    let (plain, records): (Vec<&PackFile>, Vec<&PackFile>) =
        (listing.files.iter()).partition(|f| f.path.parse::<ProofFile>().is_ok());
    let contents = records.into_iter().map(|f| (f.path.clone(), read(f)));
    let mut proofs = check_records(contents, pack, options, signatures, findings);
    for file in plain {
        let message = match (proofs.remove(&file.path), read(file)) {
            (None, _) => "no record holds this proof".to_owned(),
            (Some(_), Err(message)) => message,
            (Some(digest), Ok(bytes)) if sha256(&bytes) != digest => {
                "is not the proof that its record holds".to_owned()
            }
            (Some(_), Ok(_)) => continue,
        };
        findings.file(CODE, &file.path, message);
    }
    for name in proofs.keys() {
        findings.file(CODE, name, "a record holds this proof, but it is not there");
    }
    true
}

/// Checks records in their order, each with its name and content. Gives the proofs that they hold.
pub(super) fn check_records(
    files: impl Iterator<Item = (String, Result<Vec<u8>, String>)>,
    pack: &Pack<'_>,
    options: &VerifyOptions,
    signatures: &mut Signatures<'_>,
    findings: &mut Findings,
) -> BTreeMap<String, Digest> {
    let mut earlier = EarlierRecords::default();
    for (at, (name, content)) in files.enumerate() {
        let outcome = content.and_then(|bytes| {
            let bound = Bound {
                id: name.clone(),
                digest: sha256(&bytes),
            };
            let expected = earlier.previous.replace(bound.digest.clone());
            let addendum = check_one(&name, &bytes, at + 1, expected.as_ref(), pack, options)?;
            if let Body::Outcome { signed, .. } = &addendum.body {
                let place = (CODE, name.as_str());
                signatures.take(SignedKind::Outcome, signed, place, findings);
            }
            earlier.add(addendum.body, bound, pack)
        });
        if let Err(message) = outcome {
            findings.file(CODE, &name, message);
        }
    }
    earlier.proofs
}

/// What the records before one have said.
#[derive(Default)]
struct EarlierRecords {
    previous: Option<Digest>,
    landing: Option<Landed>,
    /// Digests of the payloads by the names of their plain files.
    proofs: BTreeMap<String, Digest>,
    proof: Option<Bound>,
    outcome: Option<(Bound, Outcome)>,
}

struct Landed {
    bound: Bound,
    commit: CommitId,
    is_clean: bool,
}

impl EarlierRecords {
    /// Takes the next record, or says why it can't follow.
    fn add(&mut self, body: Body, bound: Bound, pack: &Pack<'_>) -> Result<(), String> {
        match body {
            Body::Landing {
                landed_commit,
                target_repository_ending_clean,
                ..
            } => {
                if pack.status != RunStatus::Pass {
                    return Err("a landing of a run that did not pass".to_owned());
                }
                self.landing = Some(Landed {
                    bound,
                    commit: landed_commit,
                    is_clean: target_repository_ending_clean,
                });
            }
            Body::Proof {
                file_name,
                payload,
                payload_digest,
            } => {
                let named = (self.proofs).insert(file_name.to_string(), payload_digest.clone());
                if named.is_some() {
                    return Err("a second proof of the same stage".to_owned());
                }
                if !to_canonical(&payload).is_ok_and(|bytes| sha256(&bytes) == payload_digest) {
                    return Err("payload_digest is not that of the payload".to_owned());
                }
                if !self.landing.as_ref().is_some_and(|l| l.is_clean) {
                    return Err("a proof without a landing that left its target clean".to_owned());
                }
                let accepted = (self.outcome.as_ref())
                    .is_some_and(|(_, outcome)| *outcome == Outcome::Accepted);
                if file_name == ProofFile::OwnedRepository && !accepted {
                    return Err("a proof of a change that no operator has accepted".to_owned());
                }
                self.proof = Some(bound);
            }
            Body::Outcome {
                outcome,
                operator,
                presence,
                custody,
                note,
                signature,
                signed,
            } => {
                self.outcome = Some((bound, outcome));
                let (statement, told) = (&signed.statement, &signed.signature);
                let same = statement.outcome == outcome
                    && statement.signer.as_str() == operator
                    && statement.note == note
                    && told.presence == presence
                    && told.custody == custody
                    && told.armour == signature;
                if !same {
                    return Err("says other things than what the operator signed".to_owned());
                }
                if statement.run_id != *pack.run_id || statement.pack_digest != *pack.pack_digest {
                    return Err("the operator signed for another pack".to_owned());
                }
                if outcome == Outcome::Accepted && pack.status != RunStatus::Pass {
                    return Err("a run that did not pass was accepted".to_owned());
                }
            }
            Body::Rollback { landed_commit, .. } => {
                let landed = self.landing.as_ref().map(|l| &l.commit);
                if landed != Some(&landed_commit) {
                    return Err("a rollback of another commit than the landed one".to_owned());
                }
            }
            Body::Closeout(bound) => {
                let (run, id) = (&bound.run, pack.run_id.as_str());
                let same_run = run.id == id && run.digest == *pack.pack_digest;
                let landed = self.landing.as_ref().map(|l| &l.bound);
                let decided = self.outcome.as_ref().map(|(outcome, _)| outcome);
                let same_records = bound.landing.as_ref() == landed
                    && bound.proof == self.proof
                    && bound.outcome.as_ref() == decided;
                if !same_run || !same_records {
                    return Err(
                        "binds another run or other records than those before it".to_owned()
                    );
                }
                if !binds_approval(&bound, pack.granted) {
                    return Err("binds another request or grant than the run used".to_owned());
                }
            }
            Body::Publication { .. } => {}
        }
        Ok(())
    }
}

/// Whether a closeout names the request and the grant of the log, or none where there was none.
fn binds_approval(closeout: &Closeout, granted: Option<&Granted>) -> bool {
    let (request, grant) = (closeout.request.as_ref(), closeout.grant.as_ref());
    let binds_none = request.is_none() && grant.is_none();
    match granted {
        None => binds_none,
        Some(granted) => {
            let statement = &granted.grant.statement;
            let binds_it = request.is_some_and(|request| {
                request.id == statement.request_id.as_str()
                    && request.digest == statement.request_digest
            }) && grant
                .is_some_and(|grant| digest_of(&granted.grant).is_ok_and(|d| d == grant.digest));
            binds_it || binds_none && !granted.is_used
        }
    }
}

fn check_one(
    name: &str,
    bytes: &[u8],
    number: usize,
    previous: Option<&Digest>,
    pack: &Pack<'_>,
    options: &VerifyOptions,
) -> Result<Addendum, String> {
    let opened = open_envelope(bytes, PAYLOAD_TYPE).map_err(|e| statement::describe(&e))?;
    let addendum: Addendum = serde_json::from_slice(&opened.payload)
        .map_err(|e| format!("not an addendum: {}", text::shorten(&e.to_string(), 300)))?;
    if !to_canonical(&addendum).is_ok_and(|again| again == opened.payload) {
        return Err("the record is not the canonical form of what it says".to_owned());
    }
    let signer = PublicKey::from_base64(&addendum.harness_public_key)
        .map_err(|e| format!("harness_public_key: {e}"))?;
    if !opened.is_signed_by(&signer) {
        return Err("the signature does not hold, or keyid is not that of the key".to_owned());
    }
    let same_key = signer == *pack.signer;
    if !same_key && origin::judge(&signer, addendum.at, options) != Origin::Known {
        return Err("signed by a key that is neither the pack's nor known".to_owned());
    }
    if usize::try_from(addendum.number) != Ok(number) || addendum.file_name() != name {
        return Err(format!(
            "expected addendum {number} under its own name, found {} in this file",
            addendum.number
        ));
    }
    if addendum.previous.as_ref() != previous {
        return Err("does not name the addendum before it".to_owned());
    }
    if addendum.run_id != *pack.run_id || addendum.pack_digest != *pack.pack_digest {
        return Err("is about another pack".to_owned());
    }
    Ok(addendum)
}
