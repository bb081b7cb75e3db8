//! A small client of the ssh-agent protocol: which keys it holds, and a signature by one of them.
//!
//! Only these two questions are ever asked. Answers are bounded and parsed to their last byte.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use cto_evidence::sshsig::{SshPublicKey, SshSig, SshSigError, to_be_signed};

const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;

/// Largest answer that is read.
const ANSWER_BYTES_MAX: u32 = 256 << 10;

/// An agent that could not be asked, or said no.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("no ssh-agent is known: SSH_AUTH_SOCK is not set")]
    Unknown,
    #[error("the ssh-agent at `{path}` could not be asked")]
    Io { path: PathBuf, source: io::Error },
    #[error("the ssh-agent gave an answer that can't be read")]
    Answer,
    #[error("the ssh-agent said no")]
    Refused,
    #[error("the ssh-agent's signature does not count")]
    Signature(#[from] SshSigError),
}

impl AgentError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "agent_unknown",
            Self::Io { .. } => "agent_unreachable",
            Self::Answer => "agent_answer",
            Self::Refused | Self::Signature(_) => "not_signed",
        }
    }
}

/// A key that an agent holds, of a type that an operator may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentKey {
    pub public: SshPublicKey,
    pub comment: String,
}

/// An agent, by its socket.
pub struct Agent {
    path: PathBuf,
    stream: UnixStream,
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (head, rest) = bytes.split_at_checked(4)?;
    *bytes = rest;
    Some(u32::from_be_bytes(head.try_into().ok()?))
}

fn take_string<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_u32(bytes)?).ok()?;
    let (head, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(head)
}

/// Reads the list of keys; those of types that no operator may have are left out.
fn read_identities(mut body: &[u8]) -> Option<Vec<AgentKey>> {
    let count = take_u32(&mut body)?;
    let mut keys = Vec::new();
    for _ in 0..count {
        let blob = take_string(&mut body)?;
        let comment = String::from_utf8_lossy(take_string(&mut body)?).into_owned();
        if let Ok(public) = SshPublicKey::from_blob(blob) {
            keys.push(AgentKey { public, comment });
        }
    }
    body.is_empty().then_some(keys)
}

/// Reads the one string of a signature.
fn read_signature(mut body: &[u8]) -> Option<Vec<u8>> {
    let signature = take_string(&mut body)?.to_vec();
    body.is_empty().then_some(signature)
}

impl Agent {
    /// Connects to the agent that the environment names.
    pub fn connect(socket: Option<&str>) -> Result<Self, AgentError> {
        let path = Path::new(socket.ok_or(AgentError::Unknown)?).to_owned();
        let stream = UnixStream::connect(&path).map_err(|source| AgentError::Io {
            path: path.clone(),
            source,
        })?;
        Ok(Self { path, stream })
    }

    /// The keys that it holds.
    pub fn keys(&mut self) -> Result<Vec<AgentKey>, AgentError> {
        let body = self.ask(&[REQUEST_IDENTITIES], IDENTITIES_ANSWER)?;
        read_identities(&body).ok_or(AgentError::Answer)
    }

    /// Lets it sign. It may ask its person first, for as long as that takes.
    pub fn sign(&mut self, key: &SshPublicKey, message: &[u8]) -> Result<SshSig, AgentError> {
        let mut question = vec![SIGN_REQUEST];
        string(&mut question, &key.to_blob());
        string(&mut question, &to_be_signed(message));
        question.extend_from_slice(&0_u32.to_be_bytes());
        let body = self.ask(&question, SIGN_RESPONSE)?;
        let signature = read_signature(&body).ok_or(AgentError::Answer)?;
        Ok(SshSig::from_agent(key.clone(), &signature)?)
    }

    /// Asks one question. Gives the body of the answer that was expected.
    fn ask(&mut self, question: &[u8], expected: u8) -> Result<Vec<u8>, AgentError> {
        let path = self.path.clone();
        let failed = |source| AgentError::Io { path, source };
        let (kind, body) = self.exchange(question).map_err(failed)?;
        match kind {
            Some(kind) if kind == expected => Ok(body),
            Some(_) => Err(AgentError::Refused),
            None => Err(AgentError::Answer),
        }
    }

    fn exchange(&mut self, question: &[u8]) -> io::Result<(Option<u8>, Vec<u8>)> {
        let mut framed = Vec::new();
        string(&mut framed, question);
        self.stream.write_all(&framed)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length);
        if length == 0 || length > ANSWER_BYTES_MAX {
            return Ok((None, Vec::new()));
        }
        let mut answer = Vec::new();
        (&self.stream)
            .take(u64::from(length))
            .read_to_end(&mut answer)?;
        if answer.len() as u64 != u64::from(length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok((Some(answer.remove(0)), answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cto_testkit::authenticator::SoftKey;
    use proptest::prelude::*;

    #[test]
    fn keys_of_other_types_are_left_out_and_the_list_is_read_to_its_end() {
        let ours = SshPublicKey::from_openssh(&SoftKey::sk_ecdsa(1).public_line()).unwrap();
        let mut other = Vec::new();
        string(&mut other, b"ssh-rsa");
        let mut body = 2_u32.to_be_bytes().to_vec();
        string(&mut body, &other);
        string(&mut body, b"old");
        string(&mut body, &ours.to_blob());
        string(&mut body, b"olga@desk");
        let keys = read_identities(&body).unwrap();
        assert_eq!(keys.len(), 1);
        assert_eq!((&keys[0].public, &*keys[0].comment), (&ours, "olga@desk"));
        body.push(0);
        assert_eq!(read_identities(&body), None);
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _keys = read_identities(&body);
            let _signature = read_signature(&body);
        }
    }
}
