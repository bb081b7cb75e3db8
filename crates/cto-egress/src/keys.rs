//! The key of an upstream while a run lasts: one that stays, or short-lived ones that somebody gives out.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cto_contract::time::Utc;

use crate::conceal::KeyMask;
use crate::secret::Secret;

/// A token is renewed so long before it expires: a request takes time to arrive.
const MARGIN_SECONDS: i64 = 5;

/// A key that was given out.
#[derive(Clone, Debug)]
pub struct Token {
    pub key: Secret,
    /// None: nobody knows.
    pub expires_at: Option<Utc>,
}

/// Gives out keys. It may take its time; whoever ends the forwarder ends it too.
pub trait KeySource: Send + Sync {
    /// Returns a new key, or why there is none, in words that name no secret.
    fn fetch(&self) -> Result<Token, String>;
    fn now(&self) -> Utc;
}

/// The keys of one upstream. Clones share them.
#[derive(Clone, Default)]
pub struct Keys {
    source: Option<Arc<dyn KeySource>>,
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    token: Option<Token>,
    /// Raised with every new token.
    number: u64,
    /// The token came because the one before was refused, and no answer has shown yet that it is any better.
    is_second_try: bool,
    /// All that were ever given out.
    given: Vec<Secret>,
}

/// A key for one request, and which one it is.
#[derive(Clone, Debug)]
pub(crate) struct CurrentKey {
    pub(crate) key: Secret,
    pub(crate) number: u64,
}

impl Keys {
    /// A key that stays; none for an upstream that takes none.
    #[must_use]
    pub fn fixed(key: Option<Secret>) -> Self {
        let token = key.map(|key| Token {
            key,
            expires_at: None,
        });
        let keys = Self::default();
        if let Some(token) = token {
            keys.held().take(token);
        }
        keys
    }

    /// Keys that are asked for when they are needed.
    #[must_use]
    pub fn from_source(source: Arc<dyn KeySource>) -> Self {
        Self {
            source: Some(source),
            held: Arc::default(),
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Whole after every statement, so a panic elsewhere leaves nothing half-done.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets the first key, or says why there is none.
    pub fn prepare(&self) -> Result<(), String> {
        self.current().map(drop)
    }

    /// Whether requests carry a key.
    pub(crate) fn are_there(&self) -> bool {
        self.source.is_some() || self.held().token.is_some()
    }

    /// Returns the key for the next request. One that has expired is renewed first; the others wait meanwhile.
    pub(crate) fn current(&self) -> Result<Option<CurrentKey>, String> {
        let mut held = self.held();
        let Some(source) = &self.source else {
            return Ok(held.current());
        };
        let limit = source.now().plus_seconds(MARGIN_SECONDS);
        let expires_at = held.token.as_ref().and_then(|token| token.expires_at);
        let is_over = expires_at.is_some_and(|at| at <= limit);
        if held.token.is_none() || is_over {
            let token = source.fetch()?;
            held.take(token);
            held.is_second_try = false;
        }
        Ok(held.current())
    }

    /// Gets one more key for a request whose key was refused. None where there is no other, or where this was already tried.
    pub(crate) fn after_refusal(&self, number: u64) -> Option<CurrentKey> {
        let source = self.source.as_ref()?;
        let mut held = self.held();
        if held.number != number {
            // Somebody else has renewed it meanwhile.
            return held.current();
        }
        if held.is_second_try {
            return None;
        }
        let token = source.fetch().ok()?;
        held.take(token);
        held.is_second_try = true;
        held.current()
    }

    /// An answer showed that this key is good.
    pub(crate) fn was_accepted(&self, number: u64) {
        let mut held = self.held();
        if held.number == number {
            held.is_second_try = false;
        }
    }

    /// Whether a text holds one of all the keys that were ever given out, in whatever case.
    pub(crate) fn are_in(&self, text: &[u8]) -> bool {
        let held = self.held();
        held.given.iter().any(|key| {
            let key = key.reveal().as_bytes();
            text.windows(key.len())
                .any(|window| window.eq_ignore_ascii_case(key))
        })
    }

    /// A mask for a stream that hides all of them.
    pub(crate) fn mask(&self) -> KeyMask {
        let held = self.held();
        KeyMask::new(held.given.iter().map(|key| key.reveal().as_bytes()))
    }
}

impl Held {
    fn take(&mut self, token: Token) {
        if !self
            .given
            .iter()
            .any(|key| key.reveal() == token.key.reveal())
        {
            self.given.push(token.key.clone());
        }
        self.token = Some(token);
        self.number += 1;
    }

    fn current(&self) -> Option<CurrentKey> {
        let token = self.token.as_ref()?;
        Some(CurrentKey {
            key: token.key.clone(),
            number: self.number,
        })
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = self.held().given.len();
        write!(f, "Keys({given} given out)")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    use super::*;

    /// Numbers its tokens; each lives so many seconds.
    struct Mint {
        made: AtomicU64,
        clock: AtomicI64,
        lives: Option<i64>,
    }

    const START: &str = "2026-01-01T00:00:00Z";

    impl KeySource for Mint {
        fn fetch(&self) -> Result<Token, String> {
            let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(Token {
                key: Secret::new(&format!("token-{number}")).unwrap(),
                expires_at: self.lives.map(|seconds| self.now().plus_seconds(seconds)),
            })
        }

        fn now(&self) -> Utc {
            let start: Utc = START.parse().unwrap();
            start.plus_seconds(self.clock.load(Ordering::Relaxed))
        }
    }

    fn mint(lives: Option<i64>) -> (Arc<Mint>, Keys) {
        let mint = Arc::new(Mint {
            made: AtomicU64::new(0),
            clock: AtomicI64::new(0),
            lives,
        });
        (mint.clone(), Keys::from_source(mint))
    }

    fn key(keys: &Keys) -> String {
        let current = keys.current().unwrap().unwrap();
        format!("{} {}", current.number, current.key.reveal())
    }

    #[test]
    fn a_token_is_renewed_when_it_expires_and_not_before() {
        let (mint, keys) = mint(Some(60));
        assert_eq!(key(&keys), "1 token-1");
        mint.clock.store(54, Ordering::Relaxed);
        assert_eq!(key(&keys), "1 token-1");
        mint.clock.store(55, Ordering::Relaxed);
        assert_eq!(key(&keys), "2 token-2");
        assert!(keys.are_in(b"x TOKEN-1 y") && keys.are_in(b"token-2"));
        assert!(!keys.are_in(b"token-3"));
    }

    #[test]
    fn a_refused_token_is_renewed_once_until_one_is_accepted() {
        let (mint, keys) = mint(None);
        assert_eq!(key(&keys), "1 token-1");
        let second = keys.after_refusal(1).unwrap();
        assert_eq!(second.key.reveal(), "token-2");
        assert!(keys.after_refusal(2).is_none(), "never twice in a row");
        assert_eq!(
            keys.after_refusal(1).unwrap().number,
            2,
            "another request takes the renewed one"
        );
        keys.was_accepted(2);
        assert_eq!(keys.after_refusal(2).unwrap().key.reveal(), "token-3");
        assert_eq!(mint.made.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_key_that_stays_has_no_other() {
        let keys = Keys::fixed(Secret::new("sk-1").ok());
        assert_eq!(key(&keys), "1 sk-1");
        assert!(keys.after_refusal(1).is_none());
        assert!(Keys::fixed(None).current().unwrap().is_none());
        assert_eq!(format!("{keys:?}"), "Keys(1 given out)");
    }
}
