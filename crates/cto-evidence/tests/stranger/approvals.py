"""What operators signed, in a log and beside a pack (section 14 of the format page)."""

from sshsig import shown

SCOPE = "one approved Harness run only"
MODES = ("none", "copied-fixture", "sandbox-repo", "owned-noncritical-repo", "candidate-default")
PRESENCE = ("none", "claimed", "up", "uv")


class Signatures:
    """Every signature in its order; `pinned` is (operators, ledger) as the caller got them elsewhere, or None."""

    def __init__(self, pinned, pure, error, canonical):
        self.pinned, self.pure, self.error, self.canonical = pinned, pure, error, canonical
        self.ledger, self.counters, self.count = None, {}, 0

    def take(self, kind, record, code, file):
        statement, told = record["statement"], record["signature"]
        key = told["public_key"]
        try:
            flags, counter = shown(key, told["armour"], self.canonical(statement), self.pure)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, ZeroDivisionError) as why:
            return self.error(code, file, f"{kind}: {why}")
        if flags is None:
            custody, presences = "file", ("claimed", "none")
        else:
            custody = "synced" if flags & 8 else "unattested"
            presences = ("uv" if flags & 4 else "up" if flags & 1 else "none",)
        if (told["custody"], told["counter"]) != (custody, counter) or told["presence"] not in presences:
            return self.error(code, file, f"{kind}: more than the signature shows")
        last = self.counters.get(key, 0)
        if counter is not None and last and counter <= last:
            return self.error(code, file, f"{kind}: a counter that did not rise")
        self.counters[key] = max(last, counter or 0)
        if self.ledger not in (None, statement["ledger"]):
            return self.error(code, file, f"{kind}: another ledger")
        self.ledger, self.count = statement["ledger"], self.count + 1
        if self.pinned:
            names, claims = self.pinned[0].get(key, ((), False))
            if statement["ledger"] != self.pinned[1] or statement["signer"] not in names:
                return self.error("operator_unknown", file, f"{kind}: not an operator whom you named")
            if flags is None and told["presence"] != ("claimed" if claims else "none"):
                return self.error(code, file, f"{kind}: presence is not what was enrolled")

    def finish(self):
        if self.pinned and not self.count:
            self.error("operator_unknown", "", "nobody signed anything")


def needs_approval(contract, stage):
    least = MODES.index("sandbox-repo")
    return contract["approval_required"] or stage >= 4 or MODES.index(contract.get("mutation_mode") or "none") >= least


def sentence(bound, until):
    return (f"I approve one run of {bound['task_id']} by {bound['lane']}/{bound['model']} on {bound['target_id']}@"
            f"{bound['target_head'][:12]}, contract {bound['contract_digest'][:12]}, until {until[:16]}Z.")


def this_run(value_of, granted, digest_of):
    started, plan = value_of["run.started"], value_of["plan.updated"]
    created, identity, source = value_of["task.contract.created"], plan["identity"], plan["plan"].get("source")
    contract, tree = created["contract"], plan["plan"]["baseline_tree_id"]
    named = contract.get("target_id") or granted["target_id"]
    return {
        "task_id": contract["task_id"], "contract_digest": created["contract_digest"],
        "target_id": named if source else contract["task_id"], "target_head": source["commit"] if source else tree,
        "baseline_tree_id": tree, "lane": identity["lane"], "model": identity.get("model") or "none",
        "identity_digest": digest_of(identity), "sandbox_class": identity["sandbox_class"], "stage": started["stage"],
        "mutation_mode": started["mutation_mode"],
    }


def check_log(value_of, digest_of, signatures, error):
    """The grant of the log and whether the log says that it was used up; or None."""
    code, file = "approval_invalid", "events.normalized.jsonl"
    need = lambda holds, what: None if holds else error(code, file, what)
    started, created = value_of["run.started"], value_of.get("task.contract.created")
    decided = value_of.get("eligibility.decided", {}).get("decision")
    if decided and created:
        lifted = any(f["gate"] == "approval" and f["outcome"] == "not_required" for f in decided["facts"])
        lifted = lifted or not decided["approval_required"] and decided["selected_backend"] != "none"
        need(not (lifted and needs_approval(created["contract"], started["stage"])), "no approval asked for")
    requested, granted, denied, used = (
        value_of.get("approval." + name) for name in ("requested", "granted", "denied", "consumed"))
    for event in (requested, granted, denied):
        if event:
            right = event["scope"] == SCOPE and event["mutation_mode"] == started["mutation_mode"]
            need(right and event.get("request_id") and event["expiry"], "scope, mode, request or expiry")
    asked = (requested or {}).get("asked")
    if requested:
        need(not (requested.get("grant") or requested.get("denial") or requested["note"]), "a request that decides")
        need(not asked or asked["statement"]["request_id"] == requested.get("request_id"), "asked for another request")
    grant, denial = (granted or {}).get("grant"), (denied or {}).get("denial")
    need(not granted or grant and not granted.get("denial"), "no grant")
    need(not denied or denial and not denied.get("grant"), "no denial")
    for event, record in ((granted, grant), (denied, denial)):
        if event and record:
            said = record["statement"]
            right = (event.get("request_id"), event["actor"], event["timestamp"], event["note"]) == (
                said["request_id"], said["signer"], said["at"], said.get("note"))
            need(right and not event.get("asked"), "the event says other things than was signed")
            need(requested and requested.get("request_id") == said["request_id"], "another request")
            need(not asked or asked["statement"]["request_digest"] == said["request_digest"], "asked for something else")
    if grant:
        said = grant["statement"]
        need(granted["expiry"] == said["expires_at"] and said["execution_scope"] == SCOPE, "another expiry or scope")
        need(requested and (requested["actor"], requested["expiry"]) == (said["requester"], said["expires_at"]), "another request")
        need(said["sentence"] == sentence(said["bindings"], said["expires_at"]), "another sentence")
        need(said["at"] < said["expires_at"], "given after its end")
        need(said["self_approved"] == (not asked or asked["statement"]["signer"] == said["signer"]), "self_approved")
    need(not used or grant, "used without a grant")
    if used and grant:
        right = (used["approval_id"], used["actor"], used["scope"], used["mutation_mode"], used["expiry"]) == (
            said["request_id"], said["signer"], SCOPE, started["mutation_mode"], said["expires_at"])
        need(right and used["ledger_seq"] > 0, "approval.consumed says other things")
        need(used["timestamp"] < said["expires_at"], "used after its end")
        need(said["bindings"] == this_run(value_of, said["bindings"], digest_of), "a grant for something else")
        policy = created["contract"].get("approval_policy") or {"approvers": [], "four_eyes": False, "quorum": 1}
        need(policy["quorum"] == 1, "a quorum")
        need(not policy["approvers"] or said["signer"] in policy["approvers"], "not an approver")
        need(not policy["four_eyes"] or asked and asked["statement"]["signer"] != said["signer"], "not four eyes")
        floor = "claimed" if said["bindings"]["stage"] >= 4 else "none"
        need(PRESENCE.index(grant["signature"]["presence"]) >= PRESENCE.index(floor), "too little presence")
    for kind, record in (("requester", asked), ("grant", grant), ("denial", denial)):
        if record:
            signatures.take(kind, record, code, file)
    return (grant, bool(used)) if grant else None


def outcome_holds(body, predicate, pack_digest):
    """12. Whether the record says what the operator signed."""
    said, told = body["signed"]["statement"], body["signed"]["signature"]
    return ((said["outcome"], said["signer"], said["note"], told["presence"], told["custody"], told["armour"])
            == tuple(body[k] for k in ("outcome", "operator", "note", "presence", "custody", "signature"))
            and (said["run_id"], said["pack_digest"]) == (predicate["run_id"], pack_digest)
            and (body["outcome"] == "rejected" or predicate["status"] == "pass"))


def binds_approval(body, grant, digest_of):
    """12. Whether a closeout names the request and the grant of the log."""
    none = body["request"] is None and body["grant"] is None
    if grant is None:
        return none
    (grant, used), said = grant, grant[0]["statement"]
    return none and not used or (body["request"] == {"id": said["request_id"], "digest": said["request_digest"]}
            and body["grant"] is not None and body["grant"]["digest"] == digest_of(grant))
