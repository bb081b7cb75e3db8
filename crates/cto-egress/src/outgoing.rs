//! A request as the upstream gets it: nothing in it but the body, and what the wire passes on, is the agent's.

use std::io::{self, Write};

use cto_contract::words::Wire;

use crate::api::Api;
use crate::link::Link;
use crate::secret::Secret;
use crate::upstream::Upstream;
use crate::wires;

/// A request that may go on.
pub(crate) struct Outgoing {
    pub(crate) api: Api,
    pub(crate) wire: Wire,
    pub(crate) query: Option<&'static str>,
    pub(crate) passed: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Outgoing {
    /// Sends it whole.
    pub(crate) fn send(
        &self,
        link: &mut Link,
        upstream: &Upstream,
        key: Option<&Secret>,
    ) -> io::Result<()> {
        link.write_all(self.head(upstream, key).as_bytes())?;
        link.write_all(&self.body)?;
        link.flush()
    }

    fn head(&self, upstream: &Upstream, key: Option<&Secret>) -> String {
        let query = self
            .query
            .map_or(String::new(), |query| format!("?{query}"));
        let mut head = format!(
            "{} {}{}{query} HTTP/1.1\r\nHost: {}\r\nUser-Agent: cto\r\nAccept: application/json, text/event-stream\r\nAccept-Encoding: identity\r\nConnection: close\r\n",
            self.api.method(),
            upstream.base_path,
            self.api.below_base(),
            upstream.host_header(),
        );
        if let Some(key) = key {
            head.push_str(&wires::row(self.wire).key.line(key.reveal()));
        }
        for (name, value) in &self.passed {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.api.takes_body() {
            head.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {}\r\n",
                self.body.len()
            ));
        }
        head + "\r\n"
    }
}
