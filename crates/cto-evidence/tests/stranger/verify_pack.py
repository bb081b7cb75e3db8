#!/usr/bin/env python3
"""A verifier of evidence packs in another language, written from docs/evidence-format.md alone.

Usage: verify_pack.py PACK... [--key BASE64] [--operators FILE --ledger ID] [--pure]
Prints for each pack, on one line, `ok` (`ok, withheld N: <files>`) or its errors as `<code> <file>: <message>`.
Exit codes: 0 all verify, 5 one does not, 2 wrong use.
Without --key only integrity is asked for. --pure takes the ed25519 of this file even if `cryptography` is there.
Section numbers in the comments are those of the format page.
"""

import base64
import hashlib
import json
import os
import re
import stat
import sys

from approvals import Signatures, binds_approval, check_log, outcome_holds
from ed25519 import signed
from patch_policy import PatchError, changes_of, judge_patch
from sshsig import read_operators

ATTESTATION, SUMS, REPORT, WITHHELD = "attestation.dsse.json", "SHA256SUMS", "report.json", "WITHHELD"
EVENTS, PATCH, CONTRACT, ELIGIBILITY = "events.normalized.jsonl", "patch.diff", "task-contract.json", "eligibility.json"
REQUIRED = {REPORT, "report.md", EVENTS, "trace.jsonl", PATCH, "test.log", ELIGIBILITY, CONTRACT, SUMS, ATTESTATION}
PLACES = {name: place for place, names in enumerate([
    ["run.started"], ["task.contract.created"], ["eligibility.decided"], ["plan.updated"], ["approval.requested"],
    ["approval.granted", "approval.denied"], ["approval.consumed"], ["backend.gate.blocked"], ["backend.started"],
    ["backend.finished"], ["patch.applied"], ["git.diff.checked"], ["verification.completed"], ["baseline.compared"], ["run.recovered"], ["run.completed"],
]) for name in names}
SIDE = {"setup.completed", "source.checked", "backend.plan", "backend.activity", "model.probed", "model.usage", "backend.output.capped", "sandbox.denied", "limit.exceeded", "log.rewritten", "step.started", "step.finished"}
FAILURES = {
    "no_diff", "disallowed_file_change", "verification_failed", "missing_required_event", "dirty_ending_tree",
    "artifact_write_failure", "forbidden_action_attempted", "agent_protocol_failed", "lifecycle_timeout_after_valid_patch",
    "backend_failed", "secret_exposed", "source_repository_mutated", "protected_root_mutated", "verified_tree_mismatch",
    "verification_tampered", "patch_not_reproducible",
}
# Blocks what was not started yet, and fails what was.
FAILURES_ONCE_STARTED = {"model_admission_mismatch"}
PROOFS = ("stage4-disposable-sandbox-proof.json", "stage5-owned-repo-proof.json")
BODIES = {
    "landing": {"target_id", "branch", "base_commit", "landed_commit", "tree_id", "target_repository_ending_clean"},
    "proof": {"file_name", "payload", "payload_digest"},
    "outcome": {"outcome", "operator", "presence", "custody", "note", "signature", "signed"},
    "rollback": {"landed_commit", "rollback_commit", "tree_id"},
    "closeout": {"request", "grant", "run", "landing", "proof", "outcome", "validation"},
    "publication": {"action", "operator", "destination", "reference"},
}
OMITTED = {
    "gate": "a gate blocked the run before it", "denial": "the approval was denied before it",
    "death": "the harness died before it", "end": "the run ended before it",
}
LEVELS = ["absent", "self_reported", "inferred", "verified"]
CLAIMS = {
    "paths_within_contract": "Every changed path is within the contract",
    "patch_gives_checked_tree": "The patch alone gives the tree that was checked",
    "checks_pass": "The checks pass on the changed tree",
    "checks_fail_before": "The checks fail without the change",
    "source_unchanged": "The source repository is as it was",
    "nothing_survived": "Nothing of the backend outlived the run",
    "writes_confined": "Writes outside the workspace were impossible",
    "backend_account": "The backend says what it did",
    "operator_accepted": "An operator accepted the change",
}
LAUNCHED = ("argv", "environment_names", "programs", "steering")
GATES = (
    "lane_gate", "stage_gate", "lane_available", "source_admission", "binary_admission", "model_admission",
    "provider_decision", "allowed_paths", "forbidden_actions", "risk_class", "mutation_mode", "approval", "target_admission",
    "target_ownership", "target_risk", "target_paths", "target_actions", "target_approval", "target_outcome", "target_scope", "repository", "start_tree_clean", "evidence_interface", "ledger", "trust", "confinement", "model_endpoint",
    "model_access", "model_answer", "budget",
)
LANES = ("fake", "command", "case", "codex", "pi", "claude", "acp")
PREDICATE = {
    "run_id", "case_id", "backend", "nonce", "status", "event_chain_head", "events", "contract_digest", "identity_digest",
    "approval_id", "patch_tree_id", "run_finished_at", "conformance", "harness_public_key", "harness_version",
    "runtime_default_activation",
}
errors = []


def error(code, file, message):
    errors.append((code, file, message))


def need(holds, code, file, message):
    if not holds:
        error(code, file, message)


def must(holds, what):
    """For documents of which nothing is left to check once this fails."""
    if not holds:
        raise ValueError(what)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


# --- 3. canonical JSON -------------------------------------------------------------------------------------------------

def number(value):
    if isinstance(value, int):
        if abs(value) >= 2**53:
            raise ValueError("integer out of range")
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError("not a number")
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        text = digits.ljust(point, "0") if len(digits) <= point else digits[:point] + "." + digits[point:]
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        text = digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + "e" + ("+" if point > 0 else "-") + str(abs(point - 1))
    return sign + text


def canonical_text(value):
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical_text, value)) + "]"
    keys = sorted(value, key=lambda k: k.encode("utf-16-be"))
    return "{" + ",".join(json.dumps(k, ensure_ascii=False) + ":" + canonical_text(value[k]) for k in keys) + "}"


def canonical(value):
    return canonical_text(value).encode("utf-8")


def digest_of(value):
    return sha256(canonical(value))


# --- 2. files ----------------------------------------------------------------------------------------------------------

def is_pack_path(path):
    parts = path.split("/")
    controls = any(ord(c) < 32 or 127 <= ord(c) < 160 or c == "\\" for c in path)
    return len(path.encode()) <= 4096 and len(parts) <= 32 and all(p not in ("", ".", "..") for p in parts) and not controls


def walk(fd, prefix, files):
    """Fills `files` with the bytes of every regular file; small packs fit into memory."""
    names = os.listdir(fd)
    if not names and prefix:
        error("file_extra", prefix, "an empty directory")
    for name in names:
        path = prefix + "/" + name if prefix else name
        try:
            fits = is_pack_path(path)
        except UnicodeEncodeError:
            fits = False
        if not fits:
            error("file_extra", ascii(path), "a name that no pack holds")
            continue
        seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISDIR(seen.st_mode):
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            walk(below, path, files)
            os.close(below)
        elif stat.S_ISLNK(seen.st_mode):
            error("file_linked", path, "a symbolic link")
        elif not stat.S_ISREG(seen.st_mode):
            error("file_special", path, "not a regular file")
        else:
            need(seen.st_nlink == 1, "file_linked", path, "a hard link")
            with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=fd), "rb") as file:
                files[path] = file.read()


def read_sums(data):
    """4. The list, or None."""
    out, last = {}, None
    if data and not data.endswith(b"\n"):
        return None
    for line in data.split(b"\n")[:-1]:
        match = re.fullmatch(rb"([0-9a-f]{64})  (.+)", line, re.DOTALL)
        if not match:
            return None
        try:
            path = match[2].decode("utf-8")
        except UnicodeDecodeError:
            return None
        if not is_pack_path(path) or path in (SUMS, ATTESTATION, WITHHELD) or (last is not None and last >= match[2]):
            return None
        out[path], last = match[1].decode(), match[2]
    return out


def read_withheld(data, sums):
    """4. The files that this copy leaves out; nothing when one line is wrong."""
    free = {p.encode(): p for p in sums if p in (PATCH, "test.log") or p.startswith("backend/")}
    lines = data.split(b"\n")
    right = lines.pop() == b"" and lines and lines == sorted(set(lines) & set(free))
    need(right, "withheld_malformed", WITHHELD, "not a list of files that may be withheld")
    return {free[line] for line in lines} if right else set()


# --- 5. attestation ----------------------------------------------------------------------------------------------------

def unbase64(text):
    data = base64.b64decode(text.encode("ascii"), validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("another spelling of base64")
    return data


def open_envelope(data, payload_type, pure, file, code="envelope_malformed"):
    """The payload whose signature holds, and the raw key; or None."""
    try:
        envelope = json.loads(data)
        must(set(envelope) == {"payload", "payloadType", "signatures"}, "other fields")
        must(envelope["payloadType"] == payload_type, "another payload type")
        must(len(envelope["signatures"]) == 1, "not one signature")
        signature = envelope["signatures"][0]
        must(set(signature) == {"keyid", "sig"}, "other fields")
        must(canonical(envelope) + b"\n" == data, "not canonical")
        raw, sig = unbase64(envelope["payload"]), unbase64(signature["sig"])
        must(len(sig) == 64, "not 64 bytes")
        payload = json.loads(raw)
        must(canonical(payload) == raw, "the payload is not canonical")
        key = unbase64((payload.get("predicate") or payload)["harness_public_key"])
        must(len(key) == 32 and sha256(key) == signature["keyid"], "keyid is not that of the key")
        message = b"DSSEv1 %d %s %d %s" % (len(payload_type), payload_type.encode(), len(raw), raw)
        must(signed(key, message, sig, pure), "the signature does not hold")
        return payload, key
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as why:
        error(code, file, f"{why}")
        return None


def check_statement(statement, pack_digest):
    need(set(statement) == {"_type", "subject", "predicateType", "predicate"}, "schema_invalid", ATTESTATION, "other fields")
    need(statement.get("_type") == "https://in-toto.io/Statement/v1", "schema_invalid", ATTESTATION, "_type")
    need(statement.get("predicateType") == "urn:cto:evidence-pack:v1", "schema_invalid", ATTESTATION, "predicateType")
    need(set(statement["predicate"]) == PREDICATE, "schema_invalid", ATTESTATION, "other fields in the predicate")
    need(statement["predicate"].get("runtime_default_activation") is False, "schema_invalid", ATTESTATION, "activation")
    subject = [{"name": SUMS, "digest": {"sha256": pack_digest}}]
    need(statement.get("subject") == subject, "statement_mismatch", ATTESTATION, "about another list")


# --- 6. and 7. the log -------------------------------------------------------------------------------------------------

def read_log(data):
    """The events and the head of the chain; or None."""
    events = []
    try:
        must(data.endswith(b"\n"), "no newline at the end")
        prev = None
        for n, line in enumerate(data.split(b"\n")[:-1], 1):
            event = json.loads(line)
            must(event["schema_version"] == "cto.event/v1" and event["seq"] == n, f"line {n}: schema or seq")
            must(event["type"] in PLACES or event["type"] in SIDE, f"line {n}: unknown type")
            must(event["actor"] in ("harness", "backend", "operator"), f"line {n}: actor")
            must((event["type"] == "run.started") == (n == 1), f"line {n}: run.started")
            if n == 1:
                prev = sha256(event["data"]["nonce"].encode())
            must(event["prev"] == prev, f"line {n}: prev")
            must(all(event[k] == (events or [event])[0][k] for k in ("run_id", "case_id", "backend")), f"line {n}: run")
            prev = sha256(line)
            events.append(event)
        return events, prev
    except (ValueError, KeyError, TypeError) as why:
        error("chain_broken", EVENTS, f"{why}")
        return None


def failures(types):
    """11. The blockers that are failures in a log with these events."""
    return FAILURES | (FAILURES_ONCE_STARTED if "backend.started" in types else set())


def order_breaches(events):
    """7, rules 2 to 9; whether the contract's own types were looked for; what is omitted, and why."""
    others = [b["code"] for b in events[-1]["data"].get("blockers", []) if b["code"] != "missing_required_event"]
    types, found = [e["type"] for e in events], []
    status = "fail" if set(others) & failures(types) else "blocked" if others else "pass"
    recovered = "run.recovered" in types
    spine = [t for t in types if t in PLACES]
    if recovered:
        at = spine.index("run.recovered")
        before, after = spine[:at], spine[at + 1:]
        if after != ["run.completed"]:
            found.append("after run.recovered")
        spine = (before[:-1] if before and before[-1] == "run.completed" else before) + ["run.completed"]
    places, has = [PLACES[t] for t in spine], set(spine)
    if places != sorted(places) or len(has) != len(spine):
        found.append("out of order or twice")
    denied, gated = "approval.denied" in has, "backend.gate.blocked" in has
    if denied and has & {"approval.granted", "approval.consumed"}:
        found.append("denied and granted or consumed")
    if (denied or gated) and any(8 <= p <= 12 for p in places):
        found.append("went on after a denial or a block")
    decision = [e["data"]["decision"] for e in events if e["type"] == "eligibility.decided"]
    asked = any(d["approval_required"] for d in decision)
    if not asked and any(4 <= p <= 6 for p in places):
        found.append("an approval that nobody asked for")
    lacking = any(b["code"] == "approval_missing" for b in events[-1]["data"].get("blockers", []))
    if lacking and has & {"approval.granted", "approval.consumed"}:
        found.append("an approval of a run that had none")
    path = ["run.started", "task.contract.created", "eligibility.decided", "plan.updated"]
    if asked:
        path += ["approval.requested"] + (["approval.denied"] if denied else ["approval.granted", "approval.consumed"])
    path += ["backend.started", "backend.finished", "patch.applied", "git.diff.checked", "verification.completed"]
    measured = events[0]["backend"] != "fake" and events[0]["data"]["stage"] == 2
    if measured and status == "pass":
        path += ["baseline.compared"]
    whole, required = has >= set(path), path
    if status == "pass":
        if not whole or denied or gated:
            found.append("a pass without its whole path")
    elif gated:
        required = ["run.started", "task.contract.created", "eligibility.decided"]
        if not has >= set(required):
            found.append("a block without its path")
    else:
        reached = max([i for i, t in enumerate(path) if t in has], default=0)
        required = path[: reached + 1]
        if not has >= set(required):
            found.append("a gap")
    contract = [e["data"]["contract"] for e in events if e["type"] == "task.contract.created"]
    wanted = set(contract[-1].get("evidence_expectations", {}).get("required_events", [])) if contract else set()
    looked = status == "pass" or ("verification.completed" in has and not gated and not recovered)
    if looked and not set(types) >= wanted:
        found.append("a type that the contract requires")
    omitted = set(path) - has - set(required) | (set() if looked else {t for t in wanted & {*PLACES, *SIDE} - set(types) if t not in required})
    if measured and status != "pass" and "baseline.compared" not in has:
        omitted.add("baseline.compared")
    why = OMITTED["gate" if gated else "denial" if denied else "death" if recovered else "end"]
    return found, looked or not wanted, dict.fromkeys(omitted, why)


# --- 8. to 11. ---------------------------------------------------------------------------------------------------------

ORACLE = re.compile(
    r"""(?:exec )?(?:timeout \d+ )?(?:(?:(?:/usr)?/bin/)?(?:(?:sh|dash|bash)(?: -[eux]+)*|node|nodejs|perl|ruby"""
    r"""|(?:python|python3[.\d]*)(?: -[BEIOPSqsu]+)*) )?"?\$(?:CTO_ORACLE|\{CTO_ORACLE\})/[\w./-]+"?(?: [\w./-]+| '[^']*')*""", re.A)


def level_of(result):
    """8. How well one result is supported: by its line, where it ran, and what is known of its tests."""
    if ORACLE.fullmatch(result["command"]) and "/../" not in result["command"] and result["room"] == "own":
        return "verified"
    return "inferred" if result["tests"] or (result.get("canary") or {}).get("status") == "caught" else "self_reported"


def names(result, kind):
    return set((result.get("tests") or {}).get(kind + "_names", []))


def same(result, results):
    """8. The result of the same command, or of the same part of one."""
    return next((r for r in results if (r["command"], r.get("part")) == (result["command"], result.get("part"))), None)


def only_old(command, before, now):
    """8. Whether a command failed as before: the same exit code, and only tests that failed then."""
    told = lambda r: names(r, "failed") and not r["tests"].get("unnamed_failures", 0)
    return (before and not command["must_fail_before"] and before["exit_code"] == now["exit_code"] is not None
            and told(before) and told(now) and names(now, "failed") <= names(before, "failed"))


def keeps_tests(command, before, now):
    """8. Whether no test is lost, new to fail, or left as it was where it had to be mended."""
    then, tests, may_go = before["tests"], now["tests"], set(command["expect"].get("removed_tests", []))
    if not (then and tests):
        return True
    lost = (names(before, "passed") | names(before, "failed")) - names(now, "passed") - names(now, "failed") - may_go
    gone = names(before, "skipped") - names(now, "passed") - names(now, "failed") - names(now, "skipped") - may_go
    new = names(now, "failed") - (set() if command["must_fail_before"] else names(before, "failed"))
    fewer = len(names(before, "passed")) < then["passed"] and tests["passed"] + len(may_go) < then["passed"]
    return not (lost or gone or new or fewer)


def judge_again(contract, seen):
    """8. Whether the recorded checks passed, and their level."""
    if seen.get("not_run") is not None:
        return None, "absent"
    after, wanted, passed = seen["commands"], contract["verification_commands"], bool(seen["commands"])
    for c in wanted:
        own, before = ([r for r in rs if r["command"] == c["run"]] for rs in (after, seen["baseline"]))
        parts = list(dict.fromkeys(r["part"] for r in own if r.get("part")))
        bare = lambda text: text.replace(" ", "").replace("\t", "")
        passed &= not parts or bare("&&".join(parts)) == bare(c["run"])
        passed &= len(own) >= c["repeat"] * max(1, len(parts))
        passed &= not c["must_fail_before"] or any(not r["passed"] for r in before)
        for r in own:
            then = same(r, before)
            passed &= r["exit_code"] == c["expect"]["exit"] or bool(only_old(c, then, r))
            passed &= then is None or keeps_tests(c, then, r)
    passed = bool(passed) and all(
        r["passed"] and not r["timed_out"] and r["signal"] is None and r["command"] in [c["run"] for c in wanted]
        and (r.get("canary") or {}).get("status") != "swallowed" and r["level"] == level_of(r) for r in after)
    levels = [level_of(r) for r in after]
    return passed, "absent" if not passed else "verified" if "verified" in levels else min(levels, key=LEVELS.index)


def claims(value_of, status):
    """8. The claims that a log gives."""
    patch, diff, checks = (value_of.get(t, {}) for t in ("patch.applied", "git.diff.checked", "verification.completed"))
    end, source, out = value_of.get("backend.finished", {}), value_of.get("source.checked"), []

    def claim(kind, holds, level, *basis):
        text = CLAIMS[kind]
        rests_on = [{"event" if b in PLACES or b in SIDE else "file": b} for b in basis]
        out.append({"kind": kind, "level": level, "rests_on": rests_on, "sentence": text} if holds and level != "absent"
                   else {"kind": kind, "level": "absent", "rests_on": [], "sentence": "Not shown: " + text})

    hidden = any(b["code"] == "secret_exposed" for b in patch.get("blockers", []))
    claim("paths_within_contract", diff.get("allowed_writes_passed"), "self_reported" if hidden else "verified",
          PATCH, CONTRACT, "git.diff.checked")
    tree = patch.get("applied_tree_id")
    claim("patch_gives_checked_tree", tree and tree == patch["tree_id"] == checks.get("verified_tree_id"), "verified",
          PATCH, "patch.applied", "verification.completed")
    seen = checks.get("verification", {})
    claim("checks_pass", seen.get("passed"), seen.get("level"), "test.log", "verification.completed")
    old = [t["command"] for t in seen.get("changed_tests", []) if t["change"] == "old_failure"]
    before = any(not r["passed"] and r.get("part", r["command"]) not in old for r in seen.get("baseline", []))
    claim("checks_fail_before", seen.get("passed") and before, seen.get("level"), "test.log", "verification.completed")
    if source or (value_of.get("plan.updated") or {"plan": {}})["plan"].get("source"):
        same = source and source["fingerprint_before"] == source["fingerprint_after"]
        claim("source_unchanged", same, "verified", "source.checked")
    ran = end and end.get("start_failure") is None
    held = ran and end["sandbox"]["class"] == "full" and "run.recovered" not in value_of
    claim("nothing_survived", end.get("no_survivors"), "verified", "backend.finished")
    claim("writes_confined", held, "verified", "backend/sandbox.json", "backend.finished")
    claim("backend_account", ran, "self_reported", "backend.finished")
    if status == "pass":
        claim("operator_accepted", False, "absent")
    return out


def check_decision(decision, events, value_of):
    """8, the Eligibility Decision."""
    holds = lambda good, what: need(good, "report_mismatch", ELIGIBILITY, what)
    facts, denied, lane = decision["facts"], decision["denied_backends"], decision["requested_backend"]
    timeless = [{k: f[k] for k in ("gate", "value", "source", "outcome", "refusal") if k in f} for f in facts]
    basis = {k: decision[k] for k in ("task_id", "contract_digest", "requested_backend", "stage", "denied_backends")}
    basis |= {k: decision[k] for k in ("admissions",) if k in decision}
    holds(decision["decision_id"] == "ed-" + digest_of({**basis, "facts": timeless})[:16], "decision_id")
    for fact in facts:
        unknown = fact["outcome"] == "unknown"
        holds((fact["value"] is None) == (fact["checked_at"] is None) == unknown, "a value that was not looked at")
        holds(("refusal" in fact) == (fact["outcome"] == "missing"), "a refusal without a missing gate")
    gates = lambda *outcomes: [f["gate"] for f in facts if f["outcome"] in outcomes]
    required, passed = gates("passed", "missing", "unknown"), gates("passed")
    holds(decision["required_gates"] == required and decision["passed_gates"] == passed, "gates")
    holds(decision["missing_gates"] == gates("missing"), "missing_gates")
    reasons = [f["refusal"] for f in facts if "refusal" in f]
    eligible = required == passed
    holds(decision["reasons"] == reasons, "reasons")
    holds(decision["selected_backend"] == (lane if eligible else "none"), "selected_backend")
    holds(eligible or decision["allowed_mutation_mode"] == "none", "allowed_mutation_mode")
    holds(all(d["asked_for"] == (d["backend"] == lane) for d in denied), "asked_for")
    holds([d["reasons"] for d in denied if d["asked_for"]] == ([] if eligible else [reasons]), "denied_backends")
    for fact in facts:
        if fact["gate"] == "approval" and fact["outcome"] != "unknown":
            holds(decision["approval_required"] == (fact["outcome"] != "not_required"), "approval_required")
    names, backends = [f["gate"] for f in facts], [d["backend"] for d in denied]
    holds(names == [g for g in GATES if g in names], "the order of the facts")
    holds(backends == [b for b in LANES if b in backends], "the order of the denied backends")
    holds(decision["task_id"] == events[0]["case_id"] and lane == events[0]["backend"], "another task or backend")
    holds(decision["stage"] == value_of["run.started"]["stage"], "stage")
    if "task.contract.created" in value_of:
        holds(decision["contract_digest"] == value_of["task.contract.created"]["contract_digest"], "contract_digest")


def check_report(report, value_of, events, head, digests, documents, predicate):
    started, completed = value_of["run.started"], events[-1]["data"]
    mismatch = lambda holds, what: need(holds, "report_mismatch", REPORT, what)
    need(report["schema_version"] == "cto.report/v1" and report["runtime_default_activation"] is False
         and report["core_promotion_status"] == "not-promoted", "schema_invalid", REPORT, "constants")
    for key in ("run_id", "case_id", "backend"):
        need(report[key] == events[0][key] == predicate[key], "run_mismatch", REPORT, key)
    need(report["nonce"] == started["nonce"] == predicate["nonce"], "run_mismatch", REPORT, "nonce")
    need(predicate["event_chain_head"] == head and predicate["events"] == len(events), "chain_broken", EVENTS, "head")
    mismatch(report["run_started_at"] == events[0]["ts"], "run_started_at")
    for key in ("conformance", "parent_run_id", "harness_version", "stage", "mutation_mode"):
        mismatch(report[key] == started[key], key)
    mismatch(report.get("fake_baseline", False) == started.get("fake_baseline", False), "fake_baseline")
    mismatch(report.get("baseline_comparison") == value_of.get("baseline.compared"), "baseline_comparison")
    for key in ("contract_digest", "identity_digest", "approval_id", "patch_tree_id", "run_finished_at", "conformance",
                "harness_version", "status"):
        need(report[key] == predicate[key], "statement_mismatch", REPORT, key)
    excused = report["not_applicable"]
    for file, event, key in ((CONTRACT, "task.contract.created", "contract"), (ELIGIBILITY, "eligibility.decided", "decision")):
        if event in value_of:
            mismatch(documents.get(file) == value_of[event][key], file)
        else:
            need(file in documents or file in excused, "schema_invalid", file, "not JSON")
    if "eligibility.decided" in value_of and documents.get(ELIGIBILITY):
        check_decision(documents[ELIGIBILITY], events, value_of)
    if "task.contract.created" in value_of:
        mismatch(report["contract_digest"] == value_of["task.contract.created"]["contract_digest"] == digest_of(documents.get(CONTRACT)), "contract_digest")
    mismatch(report["identity"] == value_of.get("plan.updated", {}).get("identity"), "identity")
    mismatch(report["identity_digest"] == (report["identity"] and digest_of(report["identity"])), "identity_digest")
    plan = value_of.get("plan.updated", {}).get("plan")
    told = value_of.get("backend.started", {}).get("version_output")
    launched = plan and {**{key: plan[key] for key in LAUNCHED if key in plan}, "version_output": told}
    mismatch(report["launched"] == launched, "launched")
    if asked := value_of.get("task.contract.created", {}).get("contract"):
        mismatch(started["title"] == asked["title"], "the title of run.started")
    if plan and asked:
        commands = [c["run"] for c in asked.get("verification_commands", [])]
        mismatch(plan["verification"] == commands and plan.get("setup", []) == asked.get("setup_commands", []), "planned commands")
        limits = plan["limits"]
        mismatch(all(n in limits and limits[n] <= most for n, most in asked.get("limits", {}).items()), "planned limits")
    if "backend.started" in value_of:
        mismatch(value_of["backend.started"]["identity_digest"] == report["identity_digest"], "identity_digest of backend.started")
    else:
        mismatch(report["backend_process_started"] is False, "backend_process_started")
    mismatch(report["approval_id"] == value_of.get("approval.consumed", {}).get("approval_id"), "approval_id")
    asked = value_of.get("eligibility.decided", {}).get("decision", {}).get("approval_required")
    decided = [e["type"].split(".")[1] for e in events if e["type"] in ("approval.granted", "approval.denied")]
    stands = decided[-1] if decided else "requested" if asked else "not-required"
    mismatch(report["approval_status"] == stands, "approval_status")
    checked, patch = value_of.get("verification.completed", {}), value_of.get("patch.applied", {})
    mismatch(report["verification"] == checked["verification"] if checked else report["verification"]["passed"] is None, "verification")
    if checks := checked.get("verification"):
        again = judge_again(documents[CONTRACT], checks)
        mismatch(again == (checks["passed"], checks["level"]), "verification does not follow")
    mismatch(report["tests_passed"] == report["verification"]["passed"], "tests_passed")
    mismatch(report["claims"] == claims(value_of, completed["status"]), "claims")
    files = [b["file"] for c in report["claims"] for b in c["rests_on"] if "file" in b]
    mismatch(set(files) <= set(digests), "a claim rests on a file that is not there")
    permitted = (documents.get(CONTRACT) or {}).get("permitted_actions", [])
    attempted = {e["data"]["action"] for e in events if e["type"] == "sandbox.denied"} - {None, *permitted}
    mismatch(sorted(report["forbidden_actions_attempted"]) == sorted(attempted), "forbidden_actions_attempted")
    mismatch(report["patch_tree_id"] == patch.get("applied_tree_id"), "patch_tree_id")
    mismatch(report["verified_tree_id"] == checked.get("verified_tree_id"), "verified_tree_id")
    mismatch(report["artifact_paths"] == sorted([*digests, SUMS, ATTESTATION], key=str.encode), "artifact_paths")
    without = dict(report["artifact_digests"])
    without.pop(REPORT, None)
    own = digest_of({**report, "artifact_digests": without})
    mismatch(report["artifact_digests"] == {**digests, REPORT: own}, "artifact_digests")
    # 11. the verdict
    verdict = lambda holds, what: need(holds, "verdict_mismatch", REPORT, what)
    for key in ("status", "blockers", "failure_reason", "fault_class"):
        verdict(report[key] == completed[key], key)
    contract = documents.get(CONTRACT) or {}
    if report["status"] == "pass":
        untested = not contract.get("verification_commands") and contract.get("no_test_rationale") is not None
        verdict(not report["blockers"] and (report["verification"]["passed"] or untested), "a pass with blockers or failed checks")
        verdict(value_of.get("git.diff.checked", {}).get("allowed_writes_passed") is True, "a pass outside its paths")
        verdict(report["required_events_passed"] and not report["forbidden_actions_attempted"], "a pass with gaps or attempts")
        verdict(patch and patch["tree_id"] == patch["applied_tree_id"] == checked.get("verified_tree_id"), "not one tree")
        verdict(ended_well(value_of.get("backend.finished", {})), "a pass that the end of its backend speaks against")
    else:
        verdict(report["blockers"], "no blocker")
        found = {b["code"] for b in report["blockers"]} & failures([e["type"] for e in events])
        verdict(report["status"] == "fail" or not found, "blocked with a failure")
    mismatch(report["resources"].get("model_traffic") == value_of.get("backend.finished", {}).get("model_traffic"), "model_traffic")


def check_test_log(report, checks, log):
    """11. Whether `test.log` shows the end of every execution of a pass, in their order."""
    lines = iter(log.split(b"\n"))
    for r in [*checks["baseline"], *checks["commands"]]:
        end = f"exit code {r['exit_code']}" if r["exit_code"] is not None else "did not run" if r["signal"] is None else f"signal {r['signal']}"
        more = ", over its wall clock" * r["timed_out"] + ", output capped" * r["output_capped"]
        line = f"--- {end}, {r['seconds']:.3f} s{more}".encode()
        need(line in lines, "verdict_mismatch", "test.log", "the end of a command")


def ended_well(end):
    """11. Whether nothing in `backend.finished` speaks against a pass."""
    traffic, phases, roots = end.get("model_traffic") or {}, end.get("pipeline"), end.get("protected_roots") or {}
    by, codes = end.get("stopped_by"), (0, 1) if phases and phases["ended"] else (0,)
    ended = by == "finished" or (by != "input_unread" and end["signal"] is None and end["exit_code"] in codes)
    held = end["no_survivors"] and not (end.get("start_failure") or end["timed_out"] or end["program_replaced"])
    kept = not (roots.get("unreadable") or roots.get("changed"))
    pinned = traffic.get("pinned_model")
    same = lambda name: name == pinned or name.startswith(pinned + "-") and re.fullmatch("[0-9]{8}", name[len(pinned) + 1:].replace("-", ""))
    model = not traffic.get("standing_fault") and (pinned is None or not traffic["model_mismatches"] and all(map(same, traffic.get("answered_by", []))))
    agent = end.get("agent") or {}
    ended = ended and agent.get("end", "done") == "done"
    if phases is None:
        return ended and held and kept and model and agent.get("review") != "reject"
    first = {}
    for phase in phases["phases"]:
        first.setdefault(phase["phase"], phase)
    good = lambda p: p and p["status"] == "completed" and not p.get("critical") and not p.get("failed_rubrics")
    judged = good(first.get("verify")) and good(first.get("review")) and (first.get("implement") or {}).get("status") == "completed"
    enveloped = not any(p["status"] == "failed" and (p.get("error") or "").startswith("AGENT_RESULT") for p in phases["phases"])
    return ended and held and kept and model and enveloped and "fault" not in phases and judged


def check_freshness(report, sums, recovered):
    """9. Times have one spelling, so their text compares like themselves."""
    fresh = report["freshness"]
    bad = lambda holds, file, what: need(holds, "freshness_invalid", file, what)
    for path in sums:
        source = fresh.get(path, {}).get("source")
        left = recovered and path not in (REPORT, "report.md") and source == "checked"
        bad(source == "written" or left, path, "no entry")
    last, md = fresh[REPORT], fresh["report.md"]
    bad(report["run_started_at"] <= report["run_finished_at"] <= last["wall"], REPORT, "start, end and seal")
    bad(md["monotonic_ns"] <= last["monotonic_ns"], "report.md", "after report.json")
    for path, entry in fresh.items():
        bad(entry["nonce"] == report["nonce"], path, "nonce")
        bad(report["run_started_at"] <= entry["wall"] <= last["wall"], path, "wall")
        bad(entry["source"] != "written" or path in sums, path, "not in the pack")
        bad(path in (REPORT, "report.md") or entry["monotonic_ns"] <= md["monotonic_ns"], path, "after report.md")


def check_policy(report, value_of, contract, patch, digest):
    """10. `patch` is None when it is withheld; its digest is that of the list."""
    bad = lambda holds, what: need(holds, "policy_mismatch", PATCH, what)
    taken, checked = value_of.get("patch.applied"), value_of.get("git.diff.checked")
    for key in ("allowed_writes_passed", "forbidden_paths_passed"):
        bad(report[key] == (checked[key] if checked else None), key)
    if taken is None:
        bad(digest == sha256(b"") and report["changed_files"] == [] and checked is None, "a change without patch.applied")
        return
    hidden = {b["code"] for b in report["blockers"]} & {"secret_exposed"} and PATCH in report["not_applicable"]
    if report["status"] != "pass" and hidden:
        return
    bad(digest == taken["patch_digest"] and (patch is None or len(patch) == taken["patch_bytes"]), "another patch")
    bad(report["changes"] == taken["changes"], "changes")
    try:
        again = judge_patch(patch, contract) if patch is not None else checked and {
            "scopes": [(s["path"], s["scope"]) for s in checked["scopes"]],
            **{k: checked[k] for k in ("changed_files", "allowed_writes_passed", "forbidden_paths_passed")}}
    except PatchError as why:
        error("patch_malformed", PATCH, f"{why}")
        return
    if patch is not None:
        told = {c["path"]: (c["change"], c["before_mode"], c["after_mode"]) for c in taken["changes"]}
        bad(told == changes_of(patch), "other changes or modes")
    bad(value_of.get("plan.updated", {}).get("plan", {}).get("baseline_tree_id", taken["base_tree_id"]) == taken["base_tree_id"], "another tree")
    bad(again is None or {c["path"] for c in taken["changes"]} == set(again["changed_files"]), "other paths")
    if checked is None:
        bad(report["changed_files"] == [], "changed files that nobody looked at")
        return
    for seen in (checked, report):
        scopes = [(s["path"], s["scope"]) for s in seen["scopes"]]
        bad(scopes == again["scopes"] and all(seen[k] == again[k] for k in again if k != "scopes"), "the policy does not follow")


def check_addenda(directory, predicate, pack_digest, key, pure, grant, signatures):
    """12. Only addenda by the pack's own key: this program has no trust files."""
    previous, last, proofs, data_of = None, {}, {}, {}
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if os.path.islink(path) or not os.path.isfile(path):
            error("addendum_invalid", name, "not a plain file")
            continue
        with open(path, "rb") as file:
            data_of[name] = file.read()
    plain = {name: data_of.pop(name) for name in PROOFS if name in data_of}
    for n, (name, data) in enumerate(data_of.items(), 1):
        opened = open_envelope(data, "application/vnd.cto.addendum+json", pure, name, "addendum_invalid")
        if opened:
            record, signer = opened
            body, bound = record["body"], {"id": name, "digest": sha256(data)}
            fields = {"schema", "run_id", "pack_digest", "number", "previous", "at", "harness_public_key", "body"}
            right = (set(record) == fields and record["schema"] == "cto.addendum/v1" and signer == key and record["number"] == n
                     and name == "%04d-%s.dsse.json" % (n, body["kind"]) and record["previous"] == previous
                     and (record["run_id"], record["pack_digest"]) == (predicate["run_id"], pack_digest)
                     and set(body) == BODIES[body["kind"]] | {"kind"})
            need(right, "addendum_invalid", name, "number, chain, pack, key or fields")
            if body["kind"] == "outcome":
                signatures.take("outcome", body["signed"], "addendum_invalid", name)
            right = in_its_place(body, last, proofs, predicate, pack_digest, grant)
            need(right, "addendum_invalid", name, "does not follow from the records before it")
            last[body["kind"]] = (bound, body)
        previous = sha256(data)
    for name in {*plain, *proofs}:
        need(name in plain and sha256(plain[name]) == proofs.get(name), "addendum_invalid", name, "a proof and its record")


def in_its_place(body, last, proofs, predicate, pack_digest, grant):
    """12. Whether the records before it allow this one."""
    landed, outcome = last.get("landing", (None, {})), last.get("outcome", (None, {}))
    kind = body["kind"]
    if kind == "landing":
        return predicate["status"] == "pass"
    if kind == "proof":
        name, again = body["file_name"], body["file_name"] in proofs
        proofs[name] = body["payload_digest"]
        accepted = outcome[1].get("outcome") == "accepted"
        return (name in PROOFS and not again and digest_of(body["payload"]) == body["payload_digest"]
                and landed[1].get("target_repository_ending_clean") is True and (accepted or name == PROOFS[0]))
    if kind == "outcome":
        return outcome_holds(body, predicate, pack_digest)
    if kind == "rollback":
        return body["landed_commit"] == landed[1].get("landed_commit")
    if kind == "closeout":
        run = {"id": predicate["run_id"], "digest": pack_digest}
        return body["run"] == run and binds_approval(body, grant, digest_of) and all(body[k] == last.get(k, (None,))[0] for k in ("landing", "proof", "outcome"))
    return True


# --- 15. the algorithm -------------------------------------------------------------------------------------------------

def verify(pack, known_key, pinned, pure):
    """The files that are withheld."""
    files = {}
    fd = os.open(pack, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    walk(fd, "", files)
    sums = read_sums(files.get(SUMS, b""))
    if sums is None:
        error("sums_malformed", SUMS, "not a list")
        return
    withheld = read_withheld(files.pop(WITHHELD), sums) if WITHHELD in files else set()
    for path in sorted(REQUIRED - set(files) - withheld):
        error("not_sealed" if path == ATTESTATION else "file_missing", path, "missing")
    for path in sorted(withheld & set(files)):
        error("withheld_present", path, "said to be withheld, but there")
    for path in (set(sums) - withheld) ^ (set(files) - withheld - {SUMS, ATTESTATION}):
        error("file_missing" if path in sums else "file_extra", path, "not what the list says")
    for path, digest in sums.items():
        need(path not in files or sha256(files[path]) == digest, "digest_mismatch", path, "another digest")
    if errors:
        return
    pack_digest = sha256(files[SUMS])
    opened = open_envelope(files[ATTESTATION], "application/vnd.in-toto+json", pure, ATTESTATION)
    log = read_log(files[EVENTS])
    if not opened or not log:
        return
    (statement, key), (events, head) = opened, log
    check_statement(statement, pack_digest)
    documents = {}
    for name in (REPORT, CONTRACT, ELIGIBILITY):
        try:
            documents[name] = json.loads(files[name])
        except ValueError:
            pass
    report, predicate = documents[REPORT], statement["predicate"]
    value_of = {e["type"]: e["data"] for e in events}
    need(events[-1]["type"] == "run.completed", "event_order", EVENTS, "the last line is not run.completed")
    breaches, looked, omitted = order_breaches(events)
    for breach in breaches if report["status"] == "pass" or not report["missing_events"] else []:
        error("event_order", EVENTS, breach)
    need(bool(report["missing_events"]) == bool(breaches), "report_mismatch", REPORT, "missing_events")
    excused = {name: why for name, why in report["not_applicable"].items() if name in PLACES or name in SIDE}
    need(excused == omitted, "report_mismatch", REPORT, "not_applicable")
    passed = False if breaches else True if looked else None
    need(report["required_events_passed"] is passed, "report_mismatch", REPORT, "required_events_passed")
    # From here on the list's digests are the files' own, and all that is known of withheld ones.
    check_report(report, value_of, events, head, sums, documents, predicate)
    check_freshness(report, sums, "run.recovered" in value_of)
    check_policy(report, value_of, documents.get(CONTRACT), files.get(PATCH), sums[PATCH])
    checks = value_of.get("verification.completed", {}).get("verification")
    if checks and report["status"] == "pass" and "test.log" in files:
        check_test_log(report, checks, files["test.log"])
    signatures = Signatures(pinned, pure, error, canonical)
    grant = check_log(value_of, digest_of, signatures, error)
    addenda = os.path.join(pack, "..", predicate["run_id"] + ".addenda")
    if os.path.isdir(addenda):
        check_addenda(addenda, predicate, pack_digest, key, pure, grant, signatures)
    signatures.finish()
    need(known_key is None or known_key == key, "origin_unknown", "", "signed by another key")
    name = os.path.basename(os.path.realpath(pack))
    if re.fullmatch(r"[0-9]{8}T[0-9]{6}Z-[a-z0-9][a-z0-9-]{0,63}-[a-z0-9]{6}", name):
        need(name == predicate["run_id"], "subject_mismatch", "", "another run")
    return withheld


def main(arguments):
    pure = "--pure" in arguments
    arguments = [a for a in arguments if a != "--pure"]
    known_key = None
    if "--key" in arguments[1:]:
        at = arguments.index("--key")
        known_key = unbase64(arguments[at + 1])
        del arguments[at:at + 2]
    pinned = None
    if "--operators" in arguments[1:] and "--ledger" in arguments[1:]:
        at, of = arguments.index("--operators"), arguments.index("--ledger")
        with open(arguments[at + 1], encoding="utf-8") as file:
            pinned = read_operators(file.read()), arguments[of + 1]
        arguments = [a for i, a in enumerate(arguments) if i not in (at, at + 1, of, of + 1)]
    if not arguments or any(a.startswith("-") for a in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    worst = 0
    for pack in arguments:
        errors.clear()
        right = "ok"
        try:
            withheld = sorted(verify(pack, known_key, pinned, pure) or [])
            if withheld:
                right += ", withheld %d: %s" % (len(withheld), ", ".join(ascii(path)[1:-1] for path in withheld))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as why:
            error("schema_invalid", "", f"{type(why).__name__}: {why}")
        print("; ".join(f"{code} {ascii(file)[1:-1]}: {ascii(message)[1:-1]}" for code, file, message in errors) or right)
        worst = 5 if errors else worst
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
