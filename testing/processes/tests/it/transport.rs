//! The hostwire protocol over a child's input and output, both roles on both sides.

use crate::chaos::{Control, run};
use crate::on_both_runtimes;
use hostwire::client::{CallError, ClientConfig, ConnectError, Consumer, Request};
use hostwire::core::child::{Cause, Config, Exit, Stream};
use hostwire::core::control::{Identity, RouteOpen, Target};
use hostwire::discovery::{Environment, Location, Place};
use hostwire::host::{Host, HostConfig};
use hostwire::process::{CHILD_FILE, Extras, Transport, TransportError};
use hostwire_lab::{LAB, Lab};
use std::process::Command;
use std::sync::Arc;

fn peer(role: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_child-peer"));
    command.arg(role);
    command
}

fn open() -> RouteOpen {
    RouteOpen::new(Target::new("tool_provider", LAB).unwrap(), Identity::new("/", "test", "s").unwrap())
}

fn client() -> ClientConfig {
    let mut config = ClientConfig { consumer: Consumer::Anonymous, ..ClientConfig::default() };
    // A loaded machine takes its time to start a process.
    config.timeouts.setup = std::time::Duration::from_secs(60);
    config
}

on_both_runtimes! {
    async fn a_host_in_a_child_answers_streams_and_ends_with_its_client(bench) {
        let child = Transport::child(&bench, peer("host"), &client(), run(), Extras::default()).await.unwrap();
        // The private file is gone as soon as each has proved itself.
        let environment = std::fs::read(format!("/proc/{}/environ", child.session().pid())).unwrap();
        let file = environment.split(|byte| *byte == 0).find_map(|variable| {
            std::str::from_utf8(variable).ok()?.strip_prefix(CHILD_FILE)?.strip_prefix('=').map(str::to_owned)
        }).unwrap();
        assert!(!std::path::Path::new(&file).exists() && !std::path::Path::new(&file).parent().unwrap().exists());
        let route = child.client().open(open()).await.unwrap();
        let reply = route.request(r#"{"do":"echo","value":1}"#).await.unwrap();
        assert_eq!(reply.body.as_slice(), br#"{"echo":1}"#);
        // Large both ways: more than the pipes hold.
        let big = vec![7_u8; 3 << 20];
        let reply = route.request(Request::new(big.clone()).binary()).await.unwrap();
        assert_eq!(reply.body.as_slice(), &big[..]);
        let mut stream = route.stream(r#"{"do":"stream","items":10,"size":1000}"#);
        let mut items = 0;
        while let Some(item) = stream.next().await {
            item.unwrap();
            items += 1;
        }
        assert_eq!(items, 10);
        drop((stream, route));
        let ended = child.close().await;
        assert!(ended.verdict().is_completed(), "{ended:?}");
        assert_eq!(ended.report().exit, Exit::Code(0), "the end of its input is enough: {ended:?}");
    }

    async fn a_client_that_is_dropped_takes_its_child_with_it_in_order(bench) {
        let child = Transport::child(&bench, peer("host"), &client(), run(), Extras::default()).await.unwrap();
        let session = child.session().clone();
        drop(child);
        let ended = session.ended().await;
        assert!(ended.verdict().is_completed(), "{ended:?}");
    }

    async fn a_child_that_dies_ends_its_clients_requests_with_the_truth(bench) {
        let child = Transport::child(&bench, peer("host"), &client(), run(), Extras::default()).await.unwrap();
        let route = child.client().open(open()).await.unwrap();
        let hanging = route.request(r#"{"do":"hang"}"#);
        let reply = route.request(r#"{"do":"echo","value":2}"#).await.unwrap();
        drop(reply); // so the first has left as well
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.session().pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let error = hanging.await.unwrap_err();
        assert!(matches!(error, CallError::Unknown { .. }), "{error}");
        let ended = child.session().ended().await;
        assert!(ended.verdict().is_completed(), "{ended:?}");
        assert_eq!((ended.report().exit, ended.report().cause), (Exit::Signal(9), ended.report().cause));
    }

    /// PA1, PA2, PA9 on the protocol's own handshake: whatever the child does instead, one teardown and the first reason.
    async fn pa1_a_child_that_does_not_speak_the_protocol_is_torn_down_with_the_first_reason(bench) {
        let mut short = client();
        short.timeouts.setup = std::time::Duration::from_millis(300);
        for (mode, config, causes) in [
            ("read-only", &short, &[Cause::Timeout][..]),
            ("never-read", &short, &[Cause::BadProof, Cause::Malformed, Cause::Timeout]),
            ("peer-malformed", &short, &[Cause::BadProof, Cause::Malformed, Cause::Timeout]),
            ("echo", &short, &[Cause::BadProof, Cause::Malformed, Cause::Timeout]),
            ("exit", &short, &[Cause::Eof, Cause::ChildExited, Cause::BadProof, Cause::WriteFailed, Cause::Timeout]),
        ] {
            let mut control = Control::new();
            let connecting = Transport::child(&bench, control.command(mode, 0), config, run(), Extras::default());
            let mut connecting = std::pin::pin!(connecting);
            let early = std::future::poll_fn(|cx| std::task::Poll::Ready(std::future::Future::poll(connecting.as_mut(), cx).is_ready())).await;
            assert!(!early);
            control.know(&bench, 1).await;
            let error = connecting.await.unwrap_err();
            let TransportError::Connect { source, ended } = error else { panic!("{mode}: {error}") };
            assert!(matches!(source, ConnectError::Setup { .. } | ConnectError::TimedOut | ConnectError::Dial(_)), "PA9: {mode}: {source}");
            // The connection lets go of the pipes first, and a child that ends by that may be seen to before the reason is told.
            let cause = ended.report().cause;
            assert!(causes.contains(&cause) || matches!(cause, Cause::Eof | Cause::ChildExited), "{mode}: {ended:?}");
            assert!(ended.verdict().is_completed(), "{mode}: {ended:?}");
            control.all_gone(&bench).await;
        }
        let error = Transport::child(&bench, Command::new("/nonexistent"), &client(), run(), Extras::default()).await;
        assert!(matches!(error, Err(TransportError::Spawn(_))));
    }

    async fn pa4_a_connect_to_a_child_that_is_dropped_at_any_point_leaves_nothing(bench) {
        let config = client();
        for polls in 0..6 {
            let mut control = Control::new();
            {
                let mut connecting = std::pin::pin!(Transport::child(&bench, control.command("never-read", 0), &config, run(), Extras::default()));
                for poll in 0..polls {
                    let ready = std::future::poll_fn(|cx| std::task::Poll::Ready(std::future::Future::poll(connecting.as_mut(), cx).is_ready())).await;
                    assert!(!ready);
                    if poll == 0 {
                        control.know(&bench, 1).await;
                    }
                    bench.pause().await;
                }
            }
            control.all_gone(&bench).await;
        }
    }

    async fn a_child_can_be_the_client_of_its_parents_host(bench) {
        let dir = tempfile::tempdir().unwrap();
        let location = Location::resolve(&Environment::default(), &Place::DataDir(dir.path().to_owned())).unwrap();
        let host = Host::start(bench.clone(), HostConfig::new(location, "parent"), vec![Arc::new(Lab::new())]).await.unwrap();
        let config = Config { ..run() };
        let session = Transport::serve_child(&bench, &host, peer("client"), config, Extras::default()).unwrap();
        let ended = session.ended().await;
        assert_eq!(ended.report().exit, Exit::Code(0), "{}", ended.rest_text(Stream::Stderr));
        assert!(ended.verdict().is_completed(), "{ended:?}");
        host.shutdown();
        assert!(host.wait().await.graceful());
    }
}
