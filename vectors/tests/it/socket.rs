//! Every vector that a socket can play, against the core's host behind a plain `std::net` loop.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hostwire_core::auth::{Credentials, DaemonId, Key, Nonce};
use hostwire_core::control::{ErrorBody, Manifest, Role, RouteClass};
use hostwire_core::endpoint::Disconnect;
use hostwire_core::host::{
    ComponentSpec, Connection, Declaration, Event, HostConfig, HostLimits, HostTimeouts, Owner, Registry,
    Shared, Step,
};
use hostwire_core::negotiate::Served;
use hostwire_core::time::Instant;
use hostwire_vectors::{LabHost, Peer, Subject, files, load_all};

fn credentials() -> Credentials {
    Credentials { key: Key::new([9; 32]), daemon_id: DaemonId::new([8; 16]), daemon_ver: "loop/1".into() }
}

fn shared() -> Arc<Shared> {
    let Credentials { key, daemon_id, daemon_ver } = credentials();
    let component = |module, role: Role, class| {
        let manifest = Manifest::new(module, "9.9.9", role).expect("valid");
        let manifest = manifest.with_provides([role.as_str()]).expect("valid").with_class(class);
        let reserved = Declaration { reserved_pending: 4, reserved_tasks: 2, ..Declaration::default() };
        let general = Declaration::default();
        ComponentSpec {
            manifest,
            declaration: if class == RouteClass::Reserved { reserved } else { general },
        }
    };
    Shared::new(HostConfig {
        limits: HostLimits::default(),
        timeouts: HostTimeouts::default(),
        key,
        daemon_id,
        daemon_ver: daemon_ver.as_ref().into(),
        components: vec![
            component("lab", Role::ToolProvider, RouteClass::General),
            component("lab-reserved", Role::ManagementSurface, RouteClass::Reserved),
        ],
        served: Served::tcp_only(),
        catalog_generation: 3,
    })
    .expect("carries its components")
}

/// One connection, until it is closed: bytes in, events answered as `lab` does, bytes out.
fn serve(mut stream: TcpStream, shared: &Arc<Shared>) {
    let began = std::time::Instant::now();
    let mut buffer = vec![0; 65_536];
    let mut registry = Registry::new(16);
    let mut running = Vec::new();
    let mut half_closed = false;
    let slot = shared.admit_handshake().expect("a place");
    let mut host = Connection::new(Instant::ZERO, slot, Nonce::new([7; 32]), Arc::clone(shared));
    stream.set_read_timeout(Some(Duration::from_millis(1))).expect("set");
    stream.set_write_timeout(Some(Duration::from_millis(1))).expect("set");
    loop {
        let now = Instant::from_micros(u64::try_from(began.elapsed().as_micros()).expect("short"));
        host.handle_timeout(now);
        while let Some(event) = host.poll_event() {
            match event {
                Event::RouteOpen { id, .. } => {
                    let route = registry.claim(Owner(1)).expect("a channel");
                    let Step::Publish(grant) = registry.bind_accepted(route) else { panic!("published") };
                    host.accept_route(now, id, grant).expect("in time");
                }
                Event::Request { id, binary, body, permit, .. } => match body.as_slice() {
                    b"{\"do\":\"hang\"}" => running.push(permit),
                    b"{\"do\":\"fail\",\"code\":\"nope\",\"message\":\"no\"}" => {
                        host.fail(now, id, &ErrorBody::from_handler("nope", "no", None)).expect("in time");
                    }
                    _ => host.respond(now, id, binary, body).expect("in time"),
                },
                Event::Active
                | Event::CandidateWanted { .. }
                | Event::RouteOpenWithdrawn { .. }
                | Event::Stop { .. }
                | Event::RouteClosed { .. }
                | Event::Room
                | Event::ShutdownCommitted
                | Event::ShutdownReopened
                | Event::Closed { .. }
                | _ => {}
            }
        }
        while let Some(transmit) = host.poll_transmit(now) {
            let mut segments = [&[][..]; 64];
            let count = transmit.segments(&mut segments);
            let bytes = segments[..count].concat();
            match stream.write(&bytes) {
                Ok(taken) => transmit.written(taken).expect("no more than offered"),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    transmit.blocked();
                    break;
                }
                Err(_) => transmit.failed(hostwire_core::endpoint::WriteFailure::NothingAccepted),
            }
        }
        if host.is_closed() {
            return;
        }
        let interest = host.interest();
        if interest.half_close && !half_closed {
            half_closed = true;
            drop(stream.shutdown(Shutdown::Write));
        }
        if !interest.read {
            continue;
        }
        match stream.read(&mut buffer) {
            Ok(0) => host.handle_eof(now),
            Ok(count) => {
                let mut rest = &buffer[..count];
                while let Ok(taken) = host.handle_input(now, rest) {
                    rest = &rest[taken..];
                    if rest.is_empty() || taken == 0 {
                        break;
                    }
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => host.handle_disconnect(now, Disconnect::ReadFailed),
        }
    }
}

#[test]
fn what_a_socket_can_play_a_host_behind_a_plain_loop_passes() {
    let shared = shared();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let mut played = 0_u32;
    let mut failures = Vec::new();
    for vector in load_all(&files()).expect("all load") {
        if vector.exchange.as_ref().is_none_or(|exchange| exchange.subject != Subject::Host) {
            continue;
        }
        for case in vector.cases.iter().filter(|case| Peer::can_play(&vector, case)) {
            let stream = TcpStream::connect(address).expect("dialled");
            let (subject, _) = listener.accept().expect("accepted");
            thread::scope(|scope| {
                scope.spawn(|| serve(subject, &shared));
                played += 1;
                let nonce = [u8::try_from(played % 251).expect("small"); 32];
                let peer = Peer::new(stream, credentials(), nonce, Duration::from_secs(20));
                if let Err(divergence) = peer.play(&vector, case, &mut LabHost) {
                    failures.push(format!("{}\n{divergence}", case.name));
                }
            });
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(played > 250, "{played}");
}
