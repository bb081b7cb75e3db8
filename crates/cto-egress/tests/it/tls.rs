//! A real TLS server whose authority was made for the test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cto_egress::{Authorities, ExchangeEnd, Route, RouteError, Secret, Upstream};

use crate::support::*;

const SERVER: &str = r#"
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"usage":{"total_tokens":3},"auth":"%s"}' % (b"yes" if self.headers["Authorization"] else b"no")
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

#[expect(clippy::disallowed_methods, reason = "a test starts real programs")]
fn program(name: &str) -> Command {
    Command::new(name)
}

struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Makes an authority in `ca.pem` and a certificate for `localhost` by it in `server.pem`.
fn make_certificates(dir: &Path) {
    let openssl = |args: &str| {
        let output = program("openssl")
            .args(args.split(' '))
            .current_dir(dir)
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "openssl {args}: {words}");
    };
    openssl(
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=test-authority -days 2 -addext basicConstraints=critical,CA:TRUE",
    );
    openssl(
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost -addext subjectAltName=DNS:localhost",
    );
    openssl(
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -out server.crt -days 2 -copy_extensions copy",
    );
    let both = ["server.key", "server.crt"].map(|name| std::fs::read(dir.join(name)).unwrap());
    std::fs::File::create(dir.join("server.pem"))
        .and_then(|mut file| std::io::Write::write_all(&mut file, &both.concat()))
        .unwrap();
}

fn start(dir: &Path) -> Server {
    let mut child = program("python3")
        .args(["-c", SERVER])
        .arg(dir.join("server.pem"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    Server {
        port: line.trim().parse().unwrap(),
        child,
    }
}

#[test]
fn an_https_endpoint_is_reached_by_its_own_authority_and_by_no_other() {
    let dir = tempfile::tempdir().unwrap();
    make_certificates(dir.path());
    let server = start(dir.path());
    let ask = |host: &str, authorities: Authorities| {
        let upstream = Upstream::parse(&format!("https://{host}:{}/v1", server.port))
            .unwrap()
            .with_key(Secret::new(KEY).ok())
            .with_authorities(authorities);
        let (forwarder, address) = serve(Route::open(upstream).unwrap(), terms());
        let answer = chat(address, "{}");
        (answer, forwarder.stop().exchanges.remove(0))
    };
    let own = Authorities::File(dir.path().join("ca.pem"));
    let (answer, exchange) = ask("localhost", own.clone());
    assert!(answer.ends_with(r#""auth":"yes"}"#), "{answer}");
    assert_eq!(
        (exchange.end, exchange.tokens),
        (ExchangeEnd::Answered, Some(3))
    );
    // The right authority for another name, and the right name by nobody's authority: no request is sent.
    let strangers = dir.path().join("strangers");
    std::fs::create_dir(&strangers).unwrap();
    make_certificates(&strangers);
    for (host, authorities) in [
        ("127.0.0.1", own),
        ("localhost", Authorities::File(strangers.join("ca.pem"))),
    ] {
        let (answer, exchange) = ask(host, authorities);
        assert_eq!(verdict(&answer), "502 upstream_error");
        assert_eq!(exchange.end, ExchangeEnd::BadCertificate);
    }
}

#[test]
fn a_file_without_authorities_is_no_authority() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.pem");
    std::fs::File::create(&empty).unwrap();
    let open = |path| {
        let upstream = Upstream::parse("https://localhost/v1").unwrap();
        Route::open(upstream.with_authorities(Authorities::File(path)))
    };
    assert!(matches!(open(empty), Err(RouteError::NoAuthorities)));
    let missing = open(dir.path().join("missing.pem"));
    assert!(matches!(missing, Err(RouteError::AuthorityFile { .. })));
}
