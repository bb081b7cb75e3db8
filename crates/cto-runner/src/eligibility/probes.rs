//! One function for each fact that must be looked up. They find out; the rules judge.

use cto_contract::event::ModelProbe;
use cto_contract::ids::Digest;
use cto_contract::lanes::ProgramSource;
use cto_ledger::Standing;
use cto_rules::admission::ProgramSeen;
use cto_rules::eligibility::{
    AccessState, Answer, AnswerState, Confinement, EndpointState, Facts, NoEvidence, Probe,
    RepositoryState, StartTree,
};

use super::{Question, Reach, Target};
use crate::adapters::program_seen;
use crate::authority::superseded;
use crate::harness::Harness;
use crate::keyring::KeyStanding;
use crate::open_run::{StepError, search_path};
use crate::sandbox::{RunSandbox, class_word};
use crate::source::{self, Opened, Source};
use crate::{clock, error_chain, model};

/// Free space below which no run begins, when the config names none.
const DISK_FLOOR_MB_DEFAULT: u64 = 64;

/// What was opened while facts were looked up, so that nothing is opened twice.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) sandbox: Option<RunSandbox>,
    pub(crate) model: Option<model::Opened>,
    /// What the model said to one question.
    pub(crate) model_probe: Option<ModelProbe>,
    pub(crate) source: Option<Box<Source>>,
    /// The digest of the lane's program, where a record had to fit it.
    pub(crate) program: Option<Digest>,
    /// That of the package which it loads from.
    pub(crate) package: Option<Digest>,
}

/// Looks facts up for one question.
pub(super) struct Lookup<'a> {
    question: &'a Question<'a>,
    standing: Option<Result<Standing, String>>,
    held: Held,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(question: &'a Question<'a>) -> Self {
        Self {
            question,
            standing: None,
            held: Held::default(),
        }
    }

    pub(super) fn into_held(self) -> Held {
        self.held
    }

    /// Looks one fact up; none when whoever asks may not go that far.
    pub(super) fn look_up(
        &mut self,
        probe: Probe,
        facts: &Facts,
    ) -> Result<Option<Answer>, StepError> {
        Ok(match probe {
            Probe::EvidenceInterface => {
                // That home can be written and the key loaded was shown by opening the harness.
                let harness = self.question.harness;
                let space = enough_space(harness).map_err(NoEvidence::Unwritable);
                let found = space.and_then(|()| match harness.key_standing(clock::now()) {
                    KeyStanding::NotYet { now, counts_from } => {
                        Err(NoEvidence::ClockBeforeKey { now, counts_from })
                    }
                    // A run with such a key gets no id.
                    KeyStanding::Counts | KeyStanding::Never(_) => Ok(()),
                });
                Some(Answer::EvidenceInterface(found))
            }
            Probe::Ledger => {
                let found = self.standing().map(|standing| standing.ledger);
                Some(Answer::Ledger(found))
            }
            Probe::Trust => {
                let found = self.standing().map(|standing| standing.files);
                Some(Answer::Trust(found))
            }
            Probe::Program => self.program().map(Answer::Program),
            Probe::Confinement => self.confinement().map(Answer::Confinement),
            Probe::ModelEndpoint => Some(Answer::ModelEndpoint(self.model_endpoint(facts))),
            Probe::ModelAccess => self.model_access(facts).map(Answer::ModelAccess),
            Probe::Repository => self.repository()?.map(Answer::Repository),
            Probe::StartTree => self.start_tree().map(Answer::StartTree),
            Probe::ModelAnswer => self.model_answer(facts).map(Answer::ModelAnswer),
        })
    }

    /// The ledger and its files, or why nobody can say how they stand.
    fn standing(&mut self) -> Result<Standing, String> {
        let ledger = self.question.harness.ledger();
        let standing = self.standing.get_or_insert_with(|| {
            let authority = ledger.authority().map_err(|error| error_chain(&error))?;
            let standing = ledger.standing(&authority);
            let mut standing = standing.map_err(|error| error_chain(&error))?;
            // Where records can't be looked for, their own gates say so.
            let records = superseded(&self.question.harness.config.dir, &authority.admissions);
            standing.files.extend(records.unwrap_or_default());
            Ok(standing)
        });
        standing.clone()
    }

    /// The lane's program and its digest; unknown while nobody says which program it is.
    fn program(&mut self) -> Option<Option<ProgramSeen>> {
        let Question {
            harness,
            lane,
            argv,
            ..
        } = self.question;
        if lane.traits().program == ProgramSource::CommandLine && argv.is_empty() {
            return None;
        }
        let found = program_seen(&harness.env, *lane, argv, &search_path(harness));
        self.held.program = found.as_ref().map(|seen| seen.digest.clone());
        self.held.package = found.as_ref().and_then(|seen| seen.package.clone());
        Some(found)
    }

    /// What the chosen provider does here, before anybody is let run in it.
    fn confinement(&mut self) -> Option<Result<Confinement, String>> {
        let Question {
            harness,
            sandbox,
            scratch,
            reach,
            ..
        } = self.question;
        let chosen = match harness.sandbox(*sandbox) {
            Ok(chosen) => chosen,
            Err(error) => return Some(Err(error_chain(&error))),
        };
        if *reach == Reach::Look && chosen.is_known_by_trial() {
            return None;
        }
        Some(RunSandbox::find(harness, chosen, scratch).map(|found| {
            let confinement = Confinement {
                class: class_word(found.expected.class()),
                has_endpoint: found.has_endpoint,
            };
            self.held.sandbox = Some(found);
            confinement
        }))
    }

    fn model_endpoint(&self, facts: &Facts) -> EndpointState {
        let admissions = facts.admissions();
        let provider = admissions.admitted_pair().map(|(provider, _)| provider);
        model::endpoint(self.question.harness, self.question.lane, provider)
    }

    /// Gets the key, and finds where the address leads.
    fn model_access(&mut self, facts: &Facts) -> Option<AccessState> {
        let Question {
            harness,
            lane,
            stop,
            reach,
            ..
        } = self.question;
        let admissions = facts.admissions();
        let (provider, _) = admissions.admitted_pair()?;
        if *reach == Reach::Look && model::needs_a_command(harness, *lane, provider) {
            return None;
        }
        Some(match model::open(harness, *lane, provider, stop) {
            Ok(opened) => {
                self.held.model = Some(opened);
                AccessState::Open
            }
            Err(state) => state,
        })
    }

    /// Asks the model one small question. Nobody is asked who only looks.
    fn model_answer(&mut self, facts: &Facts) -> Option<AnswerState> {
        let Question {
            lane,
            limits,
            stop,
            reach,
            ..
        } = self.question;
        let opened = self.held.model.as_ref().filter(|_| *reach == Reach::Run)?;
        let admissions = facts.admissions();
        let (_, model) = admissions.admitted_pair()?;
        let probe = match model::probe(opened, *lane, model, limits, stop) {
            Ok(probe) => probe,
            Err(error) => return Some(AnswerState::NotAsked(error.to_string())),
        };
        let state = match probe.fault {
            Some(fault) => AnswerState::Fault(fault),
            None => AnswerState::Answered {
                model: probe.model.clone(),
                by: probe.answered_by.clone(),
            },
        };
        self.held.model_probe = Some(probe);
        Some(state)
    }

    fn repository(&mut self) -> Result<Option<RepositoryState>, StepError> {
        let Target::Repository {
            path,
            contract_file,
            rev,
        } = self.question.target
        else {
            return Ok(None);
        };
        let home = &self.question.harness.home;
        let scratch = self.question.scratch.join("source");
        Ok(Some(
            match source::open(home, path, contract_file, rev, &scratch)? {
                Opened::Refused(state) => state,
                Opened::Source(found) => {
                    self.held.source = Some(found);
                    RepositoryState::Usable
                }
            },
        ))
    }

    fn start_tree(&self) -> Option<StartTree> {
        let source = self.held.source.as_ref()?;
        Some(source.start_tree())
    }
}

/// Whether there is room for a run: below the floor nothing is begun that might not be finished.
fn enough_space(harness: &Harness) -> Result<(), String> {
    let floor = harness.config.harness.disk_floor_mb;
    let floor = floor.unwrap_or(DISK_FLOOR_MB_DEFAULT);
    let free = rustix::fs::statvfs(harness.home.root())
        .map(|s| s.f_bavail.saturating_mul(s.f_frsize) >> 20)
        .map_err(|e| format!("free space could not be read: {e}"))?;
    if free < floor {
        return Err(format!(
            "{free} MiB are free in the home directory, fewer than the floor of {floor} MiB"
        ));
    }
    Ok(())
}
