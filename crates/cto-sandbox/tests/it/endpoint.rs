//! The one address that answers inside.

use std::io::{self, Read, Write};
use std::net::TcpListener;

use cto_sandbox::{
    Endpoint, LaunchError, LaunchRequest, Launcher, LayerName, Network, Outcome, Replies,
    SandboxMessage, Stdin, StopToken,
};

use crate::support::{
    assert_nothing_survived, bwrap, fallback, has_file, has_namespaces, launcher, script,
};
use crate::workshop::Workshop;

const PORT: u16 = 8471;

fn with_endpoint(request: LaunchRequest) -> LaunchRequest {
    LaunchRequest {
        endpoint: Some(Endpoint { port: PORT }),
        ..request
    }
}

fn launch(
    launcher: &Launcher,
    request: &LaunchRequest,
    host: cto_sandbox::Host<'_>,
) -> Result<(Outcome, String), LaunchError> {
    let mut output = Vec::new();
    let stop = StopToken::new().unwrap();
    let outcome = launcher.launch_hosted(
        request,
        &stop,
        &mut |message, _| {
            if let SandboxMessage::Output(_, bytes) = message {
                output.extend_from_slice(bytes);
            }
        },
        host,
    )?;
    Ok((outcome, String::from_utf8_lossy(&output).into_owned()))
}

/// Answers the first visitor of each listener, from outside.
fn greet(listeners: Vec<TcpListener>) -> io::Result<()> {
    for listener in listeners {
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut word = [0; 5];
            stream.read_exact(&mut word).unwrap();
            stream.write_all(&word).unwrap();
            stream.write_all(b" from outside").unwrap();
        });
    }
    Ok(())
}

const VISIT: &str = r#"
import socket
for family, host in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"):
    with socket.socket(family) as stream:
        stream.connect((host, 8471))
        stream.sendall(b"hello")
        print(stream.makefile().read())
for host, port in ("127.0.0.1", 8472), ("192.0.2.1", 8471), ("127.0.0.1", 22):
    try:
        socket.create_connection((host, port)).close()
        print("reached", host, port)
    except OSError as error:
        print(error.errno in (111, 101))
try:
    socket.socket().bind(("127.0.0.1", 8471))
except OSError as error:
    print("taken", error.errno)
"#;

/// Visits the endpoint from inside, on both families, and everything around it in vain.
pub(crate) fn visit(launcher: &Launcher) {
    let python = "/usr/bin/python3";
    if !has_file(python) {
        return;
    }
    let workshop = Workshop::new();
    let request = with_endpoint(workshop.request(&[python, "-I", "-c", VISIT]));
    let (outcome, output) = launch(launcher, &request, &mut greet).unwrap();
    assert_eq!(
        output, "hello from outside\nhello from outside\nTrue\nTrue\nTrue\ntaken 98\n",
        "{outcome:?}"
    );
    assert!(outcome.confinement.in_force(LayerName::EgressForwarder));
    assert!(outcome.confinement.in_force(LayerName::NetworkNamespace));
    assert_nothing_survived(&outcome);
}

/// Lets whoever takes the listeners over fail: nothing may start then.
pub(crate) fn decline(launcher: &Launcher) {
    let workshop = Workshop::new();
    let request = with_endpoint(workshop.script("echo started > mark"));
    let mut fails = |_| Err(io::Error::other("no forwarder"));
    let error = launch(launcher, &request, &mut fails).unwrap_err();
    assert!(matches!(error, LaunchError::Host { .. }), "{error:?}");
    assert!(!workshop.space().join("mark").exists());
}

#[test]
fn the_endpoint_answers_on_both_families_and_nothing_else_does() {
    if has_namespaces() {
        visit(&launcher());
    }
}

#[test]
fn a_command_with_an_endpoint_is_told_things_too() {
    if !has_namespaces() {
        return;
    }
    let request = LaunchRequest {
        stdin: Stdin::Written,
        ..with_endpoint(script("exec cat"))
    };
    let mut output = Vec::new();
    let stop = StopToken::new().unwrap();
    let mut listener = |message: SandboxMessage<'_>, replies: &mut Replies| match message {
        SandboxMessage::Started => {
            replies.tell(b"hello");
            replies.close_stdin();
        }
        SandboxMessage::Output(_, bytes) => output.extend_from_slice(bytes),
        SandboxMessage::Attempt(_) | SandboxMessage::Activity(_) | SandboxMessage::Tick { .. } => {}
    };
    let outcome = launcher().launch_hosted(&request, &stop, &mut listener, &mut |_| Ok(()));
    assert_nothing_survived(&outcome.unwrap());
    assert_eq!(output, b"hello");
}

#[test]
fn so_does_the_one_in_bwrap() {
    let Some(launcher) = bwrap() else { return };
    visit(&launcher);
    decline(&launcher);
}

#[test]
fn a_host_that_fails_starts_nothing() {
    if has_namespaces() {
        decline(&launcher());
    }
}

#[test]
fn without_a_network_of_its_own_or_a_host_there_is_no_endpoint() {
    let mut never = |_| panic!("nothing is handed over");
    let on_host = LaunchRequest {
        network: Network::Host,
        ..with_endpoint(script("exit 0"))
    };
    let refused = |launcher: &Launcher, request: &LaunchRequest, host: cto_sandbox::Host<'_>| {
        launch(launcher, request, host).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&launcher(), &on_host, &mut never),
        "invalid launch request: an endpoint needs a network of its own"
    );
    assert_eq!(
        refused(&fallback(), &with_endpoint(script("exit 0")), &mut never),
        "process confinement is not available here: an endpoint needs a network of its own, and the kernel refuses it"
    );
    let alone = crate::support::try_run(&launcher(), &with_endpoint(script("exit 0")));
    assert_eq!(
        alone.unwrap_err().to_string(),
        "invalid launch request: an endpoint without a host"
    );
}
