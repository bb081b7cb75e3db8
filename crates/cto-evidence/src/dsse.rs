//! DSSE envelopes with exactly one spelling, so that no byte of their file can change unnoticed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cto_contract::attestation::{Envelope, Signature};
use cto_contract::ids::Digest;
use cto_contract::text;

use crate::canonical::{CanonicalError, to_canonical};
use crate::key::{PublicKey, SigningKey, decode_base64};

/// An envelope that is refused.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// Not an envelope.
    #[error("not a DSSE envelope")]
    Json(#[source] serde_json::Error),
    /// An envelope about something else.
    #[error("the payload type is `{0}`")]
    PayloadType(String),
    /// None, or more than one.
    #[error("there are {0} signatures, expected 1")]
    Signatures(usize),
    /// The file is not the RFC 8785 form and one newline.
    #[error("the file is not the canonical form of its envelope")]
    NotCanonical,
    /// Base64 in another spelling than the standard one.
    #[error("`{0}` is not canonical base64")]
    Base64(&'static str),
    /// A signature of another length.
    #[error("the signature has {0} bytes, expected 64")]
    SignatureLength(usize),
    /// The payload is not the RFC 8785 form of itself.
    #[error("the payload is not canonical JSON")]
    PayloadNotCanonical,
}

impl EnvelopeError {
    /// True when the content may be right and only the spelling is wrong.
    pub fn is_spelling(&self) -> bool {
        match self {
            Self::NotCanonical | Self::Base64(_) | Self::PayloadNotCanonical => true,
            Self::Json(_)
            | Self::PayloadType(_)
            | Self::Signatures(_)
            | Self::SignatureLength(_) => false,
        }
    }
}

/// What an envelope holds once its form is right. Its signature is not checked yet.
#[derive(Debug, Clone)]
pub struct Opened {
    pub payload: Vec<u8>,
    pub payload_type: String,
    pub keyid: Digest,
    pub sig: [u8; 64],
}

impl Opened {
    /// Checks the signature against a key; the key id must be that key's.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        key.keyid() == self.keyid && key.verify(&pae(&self.payload_type, &self.payload), &self.sig)
    }
}

/// The pre-authentication encoding: what is signed.
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut out = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    )
    .into_bytes();
    out.extend_from_slice(payload);
    out
}

/// Signs a payload. Whoever wants to open it again must hand in canonical JSON.
pub fn seal_envelope(payload_type: &str, payload: &[u8], key: &SigningKey) -> Envelope {
    let sig = key.sign(&pae(payload_type, payload));
    Envelope {
        payload: STANDARD.encode(payload),
        payload_type: payload_type.to_owned(),
        signatures: vec![Signature {
            keyid: key.keyid(),
            sig: STANDARD.encode(sig),
        }],
    }
}

/// The bytes of an envelope's file: RFC 8785 and one newline.
pub fn envelope_bytes(envelope: &Envelope) -> Result<Vec<u8>, CanonicalError> {
    let mut bytes = to_canonical(envelope)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Opens an envelope strictly: one signature, one spelling of everything.
pub fn open_envelope(bytes: &[u8], expected_type: &str) -> Result<Opened, EnvelopeError> {
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(EnvelopeError::Json)?;
    if envelope.payload_type != expected_type {
        return Err(EnvelopeError::PayloadType(text::shorten(
            &envelope.payload_type,
            80,
        )));
    }
    let [signature] = envelope.signatures.as_slice() else {
        return Err(EnvelopeError::Signatures(envelope.signatures.len()));
    };
    if !envelope_bytes(&envelope).is_ok_and(|again| again == bytes) {
        return Err(EnvelopeError::NotCanonical);
    }
    let payload = decode_base64(&envelope.payload).ok_or(EnvelopeError::Base64("payload"))?;
    let sig = decode_base64(&signature.sig).ok_or(EnvelopeError::Base64("sig"))?;
    let sig: [u8; 64] = sig
        .try_into()
        .map_err(|s: Vec<u8>| EnvelopeError::SignatureLength(s.len()))?;
    let statement: serde_json::Value =
        serde_json::from_slice(&payload).map_err(|_| EnvelopeError::PayloadNotCanonical)?;
    if !to_canonical(&statement).is_ok_and(|again| again == payload) {
        return Err(EnvelopeError::PayloadNotCanonical);
    }
    Ok(Opened {
        payload,
        payload_type: envelope.payload_type,
        keyid: signature.keyid.clone(),
        sig,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TYPE: &str = "application/vnd.in-toto+json";

    fn sealed() -> (SigningKey, Vec<u8>) {
        let key = SigningKey::from_random(&[3; 32]);
        let bytes = envelope_bytes(&seal_envelope(TYPE, br#"{"a":1,"b":"x"}"#, &key)).unwrap();
        (key, bytes)
    }

    #[test]
    fn the_encoding_is_the_one_of_the_dsse_specification() {
        assert_eq!(
            pae("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }

    #[test]
    fn an_envelope_opens_and_its_signature_holds() {
        let (key, bytes) = sealed();
        let opened = open_envelope(&bytes, TYPE).unwrap();
        assert_eq!(opened.payload, br#"{"a":1,"b":"x"}"#);
        assert!(opened.is_signed_by(&key.public()));
        assert!(!opened.is_signed_by(&SigningKey::from_random(&[4; 32]).public()));
    }

    #[test]
    fn every_other_spelling_is_refused() {
        let (key, bytes) = sealed();
        let text = String::from_utf8(bytes).unwrap();
        let check = |t: &str| {
            open_envelope(t.as_bytes(), TYPE).map_or_else(|e| e.to_string(), |_| "ok".to_owned())
        };
        assert_eq!(check(&text), "ok");
        let not_canonical = "the file is not the canonical form of its envelope";
        assert_eq!(check(text.trim_end()), not_canonical);
        assert_eq!(check(&format!("{text}\n")), not_canonical);
        assert_eq!(check(&text.replacen(':', ": ", 1)), not_canonical);
        assert_eq!(
            check(&text.replace("payloadType", "payload\\u0054ype")),
            not_canonical
        );
        assert_eq!(
            check(&text.replacen('{', "{\"extra\":1,", 1)),
            "not a DSSE envelope"
        );
        assert_eq!(
            check(&text.replacen("=\"", "\"", 1)),
            "`sig` is not canonical base64"
        );
        let mut two = seal_envelope(TYPE, b"{}", &key);
        two.signatures.push(two.signatures[0].clone());
        assert_eq!(
            check(&String::from_utf8(envelope_bytes(&two).unwrap()).unwrap()),
            "there are 2 signatures, expected 1"
        );
        two.signatures.clear();
        assert_eq!(
            check(&String::from_utf8(envelope_bytes(&two).unwrap()).unwrap()),
            "there are 0 signatures, expected 1"
        );
        let loose = envelope_bytes(&seal_envelope(TYPE, b"{\"a\": 1}", &key)).unwrap();
        assert_eq!(
            check(std::str::from_utf8(&loose).unwrap()),
            "the payload is not canonical JSON"
        );
        let other = envelope_bytes(&seal_envelope("text/plain", b"{}", &key)).unwrap();
        assert_eq!(
            check(std::str::from_utf8(&other).unwrap()),
            "the payload type is `text/plain`"
        );
    }

    proptest! {
        #[test]
        fn any_flipped_bit_is_found(at in any::<prop::sample::Index>(), bit in 0_u8..8) {
            let (key, mut bytes) = sealed();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let accepted = open_envelope(&bytes, TYPE).is_ok_and(|o| o.is_signed_by(&key.public()));
            prop_assert!(!accepted, "byte {at}");
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _result = open_envelope(&bytes, TYPE);
        }
    }
}
