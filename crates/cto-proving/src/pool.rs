//! Jobs on a few threads: what many runs side by side have in common.
//!
//! Each job is done at most once. Its end is told as it comes, on the caller's thread, and all ends are returned in the
//! order of the jobs. Once a stop is asked for, no further job begins. A panic ends its own job and no other.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use cto_sandbox::StopToken;

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended<R> {
    Done(R),
    /// Its last words.
    Panicked(String),
    /// A stop was asked for before it began.
    NotStarted,
}

/// As many workers as there are cores.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does all jobs on so many threads. `told` hears of each as it ends.
pub fn work_off<J: Sync, R: Send>(
    jobs: &[J],
    workers: usize,
    stop: &StopToken,
    perform: impl Fn(&J) -> R + Sync,
    mut told: impl FnMut(&J, &Ended<R>),
) -> Vec<Ended<R>> {
    let next = AtomicUsize::new(0);
    // Room for all: no worker ever waits to be heard.
    let (tell, ends) = mpsc::sync_channel(jobs.len());
    let work = |tell: mpsc::SyncSender<(usize, Ended<R>)>| {
        while !stop.is_asked() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return };
            let ended = match catch_unwind(AssertUnwindSafe(|| perform(job))) {
                Ok(result) => Ended::Done(result),
                Err(panic) => Ended::Panicked(last_words(&*panic)),
            };
            if tell.send((index, ended)).is_err() {
                return;
            }
        }
    };
    let mut all: Vec<Ended<R>> = jobs.iter().map(|_| Ended::NotStarted).collect();
    thread::scope(|scope| {
        let started = (0..workers.clamp(1, jobs.len().max(1)))
            .map_while(|number| {
                let (tell, work) = (tell.clone(), &work);
                let named = thread::Builder::new().name(format!("worker-{number}"));
                named.spawn_scoped(scope, move || work(tell)).ok()
            })
            .count();
        if started == 0 {
            work(tell.clone());
        }
        drop(tell);
        for (index, ended) in ends {
            told(&jobs[index], &ended);
            all[index] = ended;
        }
    });
    all
}

/// What a panic said, where it said something.
fn last_words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it gave no reason")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::*;

    fn stop() -> StopToken {
        StopToken::new().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_job_is_done_once_told_once_and_returned_in_its_place(
            jobs in proptest::collection::vec(any::<u16>(), 0..40),
            workers in 0_usize..9,
        ) {
            let mut heard = Vec::new();
            let all = work_off(&jobs, workers, &stop(), |job| u32::from(*job) + 1, |job, ended| {
                heard.push((*job, ended.clone()));
            });
            let expected: Vec<(u16, Ended<u32>)> = jobs
                .iter()
                .map(|job| (*job, Ended::Done(u32::from(*job) + 1)))
                .collect();
            prop_assert_eq!(&all, &expected.iter().map(|(_, end)| end.clone()).collect::<Vec<_>>());
            heard.sort_by_key(|(job, _)| *job);
            let mut sorted = expected;
            sorted.sort_by_key(|(job, _)| *job);
            prop_assert_eq!(heard, sorted);
        }
    }

    #[test]
    fn a_panic_ends_its_own_job_and_no_other() {
        let jobs: Vec<u32> = (0..20).collect();
        let perform = |job: &u32| {
            assert!(!job.is_multiple_of(7), "{job} is too odd");
            *job
        };
        let all = work_off(&jobs, 3, &stop(), perform, |_, _| {});
        for (job, ended) in jobs.iter().zip(all) {
            if job.is_multiple_of(7) {
                assert_eq!(ended, Ended::Panicked(format!("{job} is too odd")));
            } else {
                assert_eq!(ended, Ended::Done(*job));
            }
        }
    }

    #[test]
    fn nothing_begins_after_a_stop() {
        let stop = stop();
        let begun = Mutex::new(Vec::new());
        let perform = |job: &u32| {
            begun.lock().unwrap().push(*job);
            stop.ask();
        };
        let all = work_off(&[1, 2, 3], 1, &stop, perform, |_, _| {});
        assert_eq!(begun.into_inner().unwrap(), [1]);
        assert_eq!(all, [Ended::Done(()), Ended::NotStarted, Ended::NotStarted]);
    }

    #[test]
    fn an_end_is_told_before_the_others_have_come() {
        let (tell, heard) = std::sync::mpsc::sync_channel(1);
        let heard = Mutex::new(heard);
        // The second job waits for word that the first was told.
        let perform = |job: &u32| {
            if *job == 2 {
                let deadline = std::time::Duration::from_secs(60);
                heard.lock().unwrap().recv_timeout(deadline).unwrap();
            }
        };
        let all = work_off(&[1, 2], 2, &stop(), perform, |job, _| {
            if *job == 1 {
                tell.send(()).unwrap();
            }
        });
        assert_eq!(all, [Ended::Done(()), Ended::Done(())]);
    }
}
