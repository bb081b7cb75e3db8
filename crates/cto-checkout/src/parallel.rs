//! Spreads work on many small files over the cores.

use rayon::prelude::*;

/// Below this, starting threads costs more than it gains.
const CHUNK_FILES: usize = 64;

/// Maps every item in order, giving each worker a buffer of its own; the first error in order wins.
pub(crate) fn map<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&mut Vec<u8>, &T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    map_with(items, Vec::new, work)
}

/// The same with anything that neighbours can share.
pub(crate) fn map_with<T: Sync, S, R: Send, E: Send>(
    items: &[T],
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let run = |chunk: &[T]| {
        let mut shared = start();
        chunk
            .iter()
            .map(|item| work(&mut shared, item))
            .collect::<Result<Vec<R>, E>>()
    };
    if items.len() <= CHUNK_FILES {
        return run(items);
    }
    let chunks: Vec<Result<Vec<R>, E>> = items.par_chunks(CHUNK_FILES).map(run).collect();
    let mut results = Vec::with_capacity(items.len());
    for chunk in chunks {
        results.extend(chunk?);
    }
    Ok(results)
}
