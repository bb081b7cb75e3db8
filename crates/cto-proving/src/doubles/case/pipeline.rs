//! The walk through the phases: which role comes next, and what is told about it. No I/O and no clock.

use serde_json::{Map, Value, json};

use super::envelope::RoleResult;

/// How often a rejected change may be revised.
const REVISIONS: usize = 2;
/// Categories of a reviewer that abort the pipeline.
const HARD: [&str; 2] = ["principle-compliance", "scope-discipline"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Implement,
    Verify,
    Review,
    Close,
    Retrospective,
}

impl Role {
    pub(super) const fn phase(self) -> &'static str {
        match self {
            Self::Implement => "implement",
            Self::Verify => "verify",
            Self::Review => "review",
            Self::Close => "close",
            Self::Retrospective => "retrospective",
        }
    }

    pub(super) const fn agent(self) -> &'static str {
        match self {
            Self::Implement => "implementer",
            Self::Verify => "verifier",
            Self::Review => "reviewer",
            Self::Close => "closer",
            Self::Retrospective => "retrospective",
        }
    }

    const fn status(self) -> Option<&'static str> {
        match self {
            Self::Implement => Some("implementing"),
            Self::Verify => Some("verifying"),
            Self::Review => Some("reviewing"),
            Self::Close => Some("closing"),
            Self::Retrospective => None,
        }
    }

    const fn evidence_gates(self) -> &'static [&'static str] {
        match self {
            Self::Implement => &["commit"],
            Self::Verify => &["tested"],
            Self::Review => &["reviewed"],
            Self::Close => &["pr-opened"],
            Self::Retrospective => &[],
        }
    }
}

/// Which phases there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Profile {
    Tiny,
    Standard,
}

impl Profile {
    pub(super) fn of(name: Option<&str>) -> Self {
        match name {
            Some("tiny") => Self::Tiny,
            Some(_) | None => Self::Standard,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Standard => "standard",
        }
    }

    fn round(self) -> &'static [Role] {
        match self {
            Self::Tiny => &[Role::Implement, Role::Review],
            Self::Standard => &[Role::Implement, Role::Verify, Role::Review],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    Running,
    Completed,
    Failed,
    Skipped,
}

struct Node {
    role: Role,
    round: usize,
    state: State,
    failed_categories: usize,
}

/// An event before it has its time, number and run.
pub(super) type Event = Map<String, Value>;

/// A role that is to work now.
pub(super) struct Begun {
    pub(super) events: Vec<Event>,
    pub(super) role: Role,
    /// Which revision it is; 0 for the first round.
    pub(super) revision: usize,
}

/// Where the walk has got to.
pub(super) struct Pipeline {
    profile: Profile,
    nodes: Vec<Node>,
    status: &'static str,
    /// The agent that brought it down.
    failed_agent: Option<&'static str>,
    /// Skipped phases that are told before the next role begins.
    waiting: Vec<Event>,
}

fn event(name: &str, fields: Value) -> Event {
    let mut event = Map::new();
    event.insert("event".to_owned(), json!(name));
    if let Value::Object(fields) = fields {
        event.extend(fields);
    }
    event
}

impl Pipeline {
    pub(super) fn new(profile: Profile) -> Self {
        let node = |role, round| Node {
            role,
            round,
            state: State::Pending,
            failed_categories: 0,
        };
        let mut nodes = Vec::new();
        for round in 0..=REVISIONS {
            nodes.extend(profile.round().iter().map(|role| node(*role, round)));
        }
        nodes.push(node(Role::Close, 0));
        nodes.push(node(Role::Retrospective, 0));
        Self {
            profile,
            nodes,
            status: "active",
            failed_agent: None,
            waiting: Vec::new(),
        }
    }

    pub(super) fn plan(&self, task: &str, run: &str, now: &str) -> Value {
        let last = [Role::Close, Role::Retrospective];
        let roles = self.profile.round().iter().chain(&last);
        let phases: Vec<Value> = roles
            .map(|role| json!({"phase": role.phase(), "agent": role.agent(), "evidenceGates": role.evidence_gates()}))
            .collect();
        json!({
            "runId": run, "taskId": task, "profile": self.profile.name(), "phases": phases,
            "revisionBudget": REVISIONS, "modelConfig": {}, "generatedAt": now,
        })
    }

    pub(super) fn start(&self, task: &str, plan: Value) -> Vec<Event> {
        let profile = self.profile.name();
        vec![event(
            "pipeline_start",
            json!({"taskId": task, "profile": profile, "plan": plan}),
        )]
    }

    /// The next role, if there is one.
    pub(super) fn begin(&mut self) -> Option<Begun> {
        let next = self.next()?;
        let node = &mut self.nodes[next];
        node.state = State::Running;
        let (role, revision) = (node.role, node.round);
        let mut events = std::mem::take(&mut self.waiting);
        events.push(event(
            "phase_start",
            json!({"phase": role.phase(), "agent": role.agent()}),
        ));
        // Nobody tells a status after a failure.
        if !self.is_broken() {
            events.extend(self.status_change());
        }
        Some(Begun {
            events,
            role,
            revision,
        })
    }

    /// Takes what the role that is at work came to.
    pub(super) fn end(&mut self, result: RoleResult) -> Vec<Event> {
        let Some(running) = self.nodes.iter().position(|n| n.state == State::Running) else {
            return Vec::new();
        };
        let (role, round) = (self.nodes[running].role, self.nodes[running].round);
        // The last role never fails, whatever became of it.
        let result = match role {
            Role::Retrospective => RoleResult::of("completed", "Retrospective complete", None),
            Role::Implement | Role::Verify | Role::Review | Role::Close => result,
        };
        let was_broken = self.is_broken();
        let failed = result.failed_categories();
        let is_completed = result.is_completed();
        if matches!(role, Role::Verify | Role::Review) {
            self.nodes[running].failed_categories = failed.len();
        }
        self.nodes[running].state = match is_completed {
            true => State::Completed,
            false => State::Failed,
        };
        // A role that fails ends the walk, so it is the last that can be blamed.
        if !is_completed || (role == Role::Review && is_aborting(&result)) {
            self.failed_agent = Some(role.agent());
        }
        let outcome = if is_completed { "completed" } else { "failed" };
        let mut events = vec![event(
            "phase_end",
            json!({"phase": role.phase(), "agent": role.agent(), "outcome": outcome, "durationMs": 0, "result": result.value()}),
        )];
        if is_completed && !failed.is_empty() && matches!(role, Role::Verify | Role::Review) {
            events.push(match round < REVISIONS {
                true => event(
                    "revision_requested",
                    json!({"source": role.agent(), "cycle": round + 1, "failedCategories": failed}),
                ),
                false => event("revision_budget_exhausted", json!({"cycles": round + 1})),
            });
        }
        if was_broken {
            return events;
        }
        if self.is_broken() {
            self.waiting = self.skip(|role| role != Role::Retrospective);
        } else {
            events.extend(self.status_change());
        }
        events
    }

    /// Everything that is left to tell.
    pub(super) fn finish(&mut self, milliseconds: u64) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.waiting);
        events.extend(self.skip(|_| true));
        let mut last = json!({"outcome": self.outcome(), "durationMs": milliseconds});
        if let Some(agent) = self.failed_agent {
            last["failedAgent"] = json!(agent);
        }
        events.push(event("pipeline_end", last));
        events
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed_agent.is_some()
    }

    pub(super) fn outcome(&self) -> &'static str {
        match self.has_failed() {
            true => "failed",
            false => "completed",
        }
    }

    /// Whether a role failed: then only the last one still works.
    fn is_broken(&self) -> bool {
        self.nodes.iter().any(|node| node.state == State::Failed)
    }

    fn next(&self) -> Option<usize> {
        let is_next = |node: &Node| node.state == State::Pending;
        if self.is_broken() {
            let last = |node: &Node| is_next(node) && node.role == Role::Retrospective;
            return self.nodes.iter().position(last);
        }
        for round in 0..=REVISIONS {
            let of_round = |node: &&Node| node.round == round && node.role.status().is_some();
            let mut nodes = self.nodes.iter().enumerate();
            let rejected = self
                .nodes
                .iter()
                .filter(of_round)
                .any(|node| node.failed_categories > 0);
            let waiting =
                nodes.find(|(_, node)| of_round(node) && is_next(node) && node.role != Role::Close);
            match waiting {
                // A verifier that rejects is not followed by a review, unless nothing can be revised any more.
                Some(_) if rejected && round < REVISIONS => continue,
                Some((at, _)) => return Some(at),
                None if rejected && round < REVISIONS => continue,
                None => break,
            }
        }
        let ending =
            |node: &Node| is_next(node) && matches!(node.role, Role::Close | Role::Retrospective);
        self.nodes.iter().position(ending)
    }

    fn skip(&mut self, which: impl Fn(Role) -> bool) -> Vec<Event> {
        let pending = self.nodes.iter_mut();
        let pending = pending.filter(|n| n.state == State::Pending && which(n.role));
        let told = pending.map(|node| {
            node.state = State::Skipped;
            let role = node.role;
            event(
                "phase_end",
                json!({"phase": role.phase(), "agent": role.agent(), "outcome": "skipped", "durationMs": 0}),
            )
        });
        told.collect()
    }

    fn status_change(&mut self) -> Option<Event> {
        let to = self.current_status();
        let from = std::mem::replace(&mut self.status, to);
        (from != to).then(|| event("status_changed", json!({"from": from, "to": to})))
    }

    fn current_status(&self) -> &'static str {
        let mut running = self.nodes.iter().filter(|n| n.state == State::Running);
        if let Some(status) = running.find_map(|node| node.role.status()) {
            return status;
        }
        let is = |role: Role, state: State| {
            let mut nodes = self.nodes.iter();
            nodes.any(|node| node.role == role && node.state == state)
        };
        if is(Role::Close, State::Completed) {
            let is_done = |n: &Node| matches!(n.state, State::Completed | State::Skipped);
            return match self.nodes.iter().all(is_done) {
                true => "merged",
                false => "pr-opened",
            };
        }
        match is(Role::Review, State::Completed) && is(Role::Close, State::Pending) {
            true => "evaluating",
            false => "active",
        }
    }
}

/// Whether a review brings the pipeline down although its role completed.
fn is_aborting(result: &RoleResult) -> bool {
    let is_hard = |category: &Value| {
        let name = category.get("category").and_then(Value::as_str);
        name.is_some_and(|name| HARD.contains(&name))
    };
    result.critical() > 0.0 || result.failed_categories().iter().any(is_hard)
}
