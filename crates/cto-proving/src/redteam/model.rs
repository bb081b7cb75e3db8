//! A model that is planted outside: it answers one question the same way every time, and counts how often it was asked.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a connection may be silent.
const PATIENCE: Duration = Duration::from_secs(5);
const HEADER_BYTES_MAX: u64 = 64 * 1024;
const ANSWER: &str = r#"{"choices":[{"message":{"content":"new"}}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}"#;

/// Gone again when it is dropped.
pub(crate) struct Model {
    at: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    asked: AtomicU64,
    is_over: AtomicBool,
}

impl Model {
    pub(crate) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let at = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if theirs.is_over.load(Ordering::SeqCst) {
                    break;
                }
                // Who breaks off has asked all the same.
                if let Ok(stream) = stream {
                    theirs.asked.fetch_add(1, Ordering::SeqCst);
                    answer(stream).ok();
                }
            }
        });
        Ok(Self {
            at,
            shared,
            thread: Some(thread),
        })
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.at)
    }

    /// How many connections there were.
    pub(crate) fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes it.
        drop(TcpStream::connect_timeout(&self.at, PATIENCE));
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?).take(HEADER_BYTES_MAX);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    io::copy(&mut reader.take(length), &mut io::sink())?;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{ANSWER}",
        ANSWER.len()
    )
}
