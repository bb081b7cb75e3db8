//! What the model's provider did, as the forwarder saw it: an agent whose model failed it is not at fault.

use cto_contract::blocker::{Blocker, BlockerCode};
use cto_contract::event::{BackendFinished, ProviderFault};
use cto_contract::text::shorten;

/// Most characters of a model's name in a message.
const NAME_CHARS: usize = 120;

/// The provider's fault that no good answer came after. One that was recovered from says nothing.
pub(crate) fn provider_fault(end: &BackendFinished) -> Option<Blocker> {
    let traffic = end.model_traffic.as_ref()?;
    let fault = traffic.standing_fault?;
    let (code, what) = kind(fault);
    let count: u64 = traffic.faults.values().sum();
    let requests = traffic.requests;
    Some(Blocker::new(
        code,
        fault.as_str(),
        format!("{what}, and nothing better came after it ({count} of {requests} requests failed)"),
    ))
}

/// The same before a start. A provider that is silent then is not there: nothing of the run's own time was used.
pub(crate) const fn preflight_fault(fault: ProviderFault) -> (BlockerCode, &'static str) {
    match kind(fault) {
        (BlockerCode::Timeout, words) => (BlockerCode::ProviderUnavailable, words),
        kind => kind,
    }
}

/// The blocker of a provider's fault, and the fault in words.
const fn kind(fault: ProviderFault) -> (BlockerCode, &'static str) {
    use BlockerCode as Code;
    match fault {
        ProviderFault::Auth => (
            Code::ProviderAuthUnavailable,
            "the model endpoint refused the key",
        ),
        ProviderFault::RateLimited => (
            Code::ProviderUnavailable,
            "the model endpoint had too many requests or no quota left",
        ),
        ProviderFault::ServerError => (
            Code::ProviderUnavailable,
            "the model endpoint answered with an error of its own",
        ),
        ProviderFault::Refused => (
            Code::ProviderUnavailable,
            "nobody listened at the model endpoint",
        ),
        ProviderFault::Unreachable => (
            Code::ProviderUnavailable,
            "the model endpoint could not be reached",
        ),
        ProviderFault::Certificate => (
            Code::ProviderUnavailable,
            "the certificate of the model endpoint does not vouch for its name",
        ),
        ProviderFault::Redirect => (
            Code::ProviderUnavailable,
            "the model endpoint redirected, which is refused",
        ),
        ProviderFault::Cut => (
            Code::ProviderUnavailable,
            "the answer of the model endpoint ended early",
        ),
        ProviderFault::Malformed => (
            Code::ProviderUnavailable,
            "the answer of the model endpoint was malformed",
        ),
        ProviderFault::Rejected => (
            Code::ProviderUnavailable,
            "the model endpoint does not know the path, the model or the request",
        ),
        ProviderFault::ReasoningOnly => (
            Code::ProviderReasoningOnly,
            "the model answered with reasoning only",
        ),
        ProviderFault::Silent => (Code::Timeout, "the model endpoint was silent"),
    }
}

/// Another model than the run's was asked for, or answered.
pub(crate) fn another_model(end: &BackendFinished) -> Option<Blocker> {
    let traffic = end.model_traffic.as_ref()?;
    let pinned = traffic.pinned_model.as_ref()?;
    let short = |name: &str| shorten(name, NAME_CHARS);
    let mut answered = traffic.answered_by.iter();
    let other = answered.find(|name| !is_same_model(pinned, name));
    let message = match (other, traffic.model_mismatches) {
        (Some(other), _) => format!("`{}` answered, not `{}`", short(other), short(pinned)),
        (None, 0) => return None,
        (None, count) => format!(
            "{count} requests did not ask for `{}`; they were refused",
            short(pinned)
        ),
    };
    let code = BlockerCode::ModelAdmissionMismatch;
    Some(Blocker::new(code, short(pinned), message))
}

/// Whether a name that an answer gives is the model that was asked for: the same, or the dated one behind it.
pub(crate) fn is_same_model(asked: &str, answered: &str) -> bool {
    let is_date = |date: &str| {
        let digits: String = date.chars().filter(|c| *c != '-').collect();
        digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit())
    };
    match answered.strip_prefix(asked) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(is_date),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dated_name_is_the_same_model_and_nothing_else_is() {
        for same in ["gpt-4o", "gpt-4o-2024-08-06", "gpt-4o-20240806"] {
            assert!(is_same_model("gpt-4o", same), "{same}");
        }
        for other in [
            "gpt-4",
            "gpt-4o-mini",
            "GPT-4o",
            "",
            "gpt-4o-2024-08",
            "gpt-4o20240806",
        ] {
            assert!(!is_same_model("gpt-4o", other), "{other}");
        }
    }

    #[test]
    fn every_fault_blocks_and_is_the_environments() {
        use cto_contract::words::{FaultClass, RunStatus};
        for fault in ProviderFault::ALL {
            let row = kind(*fault).0.row();
            assert_eq!(row.status, RunStatus::Blocked, "{fault}");
            assert_eq!(row.fault, FaultClass::Environment, "{fault}");
            assert!(row.marker.is_some(), "{fault}");
        }
    }
}
