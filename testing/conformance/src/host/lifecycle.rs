//! The start and the end of a host.

use super::drought::Drought;
use super::peer::{Peer, to};
use super::routes::Door;
use super::{Log, Puppet, Site, ended};
use crate::Bench;
use hostwire::component::{Component, Declaration, ErrorReply, Handled, Health, Reply};
use hostwire::core::control::ConsumerIdentity;
use hostwire::core::fault::CloseReason;
use hostwire::core::lifecycle::HostState;
use hostwire::core::outcome::{Outcome, Terminal};
use hostwire::discovery::{LockError, probe, unix_now_ms};
use hostwire::host::{Callback, Cause, StartError};
use hostwire::{Host, Runtime};
use hostwire_lab::{Lab, LabReserved};
use std::future::{pending, poll_fn};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

fn puppets(log: &Log, names: &[&str]) -> Vec<Puppet> {
    names.iter().map(|name| Puppet::new(name, log)).collect()
}

fn components(puppets: Vec<Puppet>) -> Vec<Arc<dyn Component>> {
    puppets.into_iter().map(|puppet| Arc::new(puppet) as Arc<dyn Component>).collect()
}

/// P7, AE13.
pub async fn p7_a_host_is_found_while_it_runs_and_gone_when_it_has_ended<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    assert_eq!(site.state(), HostState::Stopped);
    let host = site.start(&bench, vec![Arc::new(Lab::new()), Arc::new(LabReserved::default())]).await;
    assert_eq!(site.state(), HostState::Running);
    assert_eq!(host.connection_file(), site.location.connection_file());
    let mut peer = Peer::connect(&bench, &site.location).await;
    peer.lab().await;
    peer.open(&to("management_surface", "lab-reserved", "s")).await.unwrap();
    let wrong = peer.open(&to("management_surface", "lab", "s")).await.unwrap_err();
    assert_eq!(wrong.code(), "target_unavailable");
    let unknown = peer.open(&to("tool_provider", "nobody", "s")).await.unwrap_err();
    assert_eq!(unknown.code(), "unknown_module");
    host.shutdown();
    let mut end = pin!(ended(&bench, &host));
    let end = peer.during(&mut end).await;
    assert!(end.graceful(), "{end:?}");
    assert_eq!(peer.closed().await.0, CloseReason::PeerGoodbye, "§17 (4)");
    assert_eq!(site.state(), HostState::Stopped);
    assert!(!site.location.connection_file().exists());
    // A successor starts at once, under another name.
    let second = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    assert_ne!(second.daemon_id(), host.daemon_id(), "P2");
    second.shutdown();
    assert!(ended(&bench, &second).await.graceful());
    assert_eq!(host.wait().await, end, "the same answer every time");
}

/// V49, B7.
pub async fn v49_declarations_beyond_the_limits_are_refused_by_name_and_nothing_is_touched<R: Runtime>(
    bench: Bench<R>,
) {
    let (site, log) = (Site::default(), Log::default());
    let over = |declaration: Declaration| {
        let mut puppet = Puppet::new("lab", &log);
        puppet.manifest = puppet.manifest.declare(declaration);
        components(vec![puppet])
    };
    let none = Declaration::default();
    let cases = [
        (Declaration { reserved_pending: 1_024, ..none }, "pending_requests"),
        (Declaration { reserved_tasks: 256, ..none }, "handler_tasks"),
        (Declaration { parked_tasks: 256, ..none }, "handler_tasks"),
        (Declaration { resident_bytes: 256 << 20, ..none }, "resident_bytes"),
        (Declaration { resident_bytes: usize::MAX, ..none }, "resident_bytes"),
    ];
    for (declaration, bound) in cases {
        let error = site.try_start(&bench, site.config(), over(declaration)).await.unwrap_err();
        assert_eq!(error.bound(), Some(bound), "{error}");
    }
    let mut config = site.config();
    config.limits.connections = 0;
    let error = site.try_start(&bench, config, over(none)).await.unwrap_err();
    assert_eq!(error.bound(), Some("connections"));
    let twins = site.try_start(&bench, site.config(), components(puppets(&log, &["a", "a"]))).await;
    assert!(matches!(twins, Err(StartError::Plan(_))));
    let nameless = site.try_start(&bench, site.config(), components(puppets(&log, &[""]))).await;
    assert!(matches!(nameless, Err(StartError::Manifest { index: 0, .. })));
    assert_eq!(log.said(), Vec::<String>::new());
    assert!(!site.location.run_dir().exists(), "nothing was touched");
}

/// B150, B154, P1.
pub async fn b150_a_second_host_is_refused_and_the_first_goes_on<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    let second = site.try_start(&bench, site.config(), components(puppets(&log, &["lab"]))).await;
    match second {
        Err(StartError::Lock(LockError::AlreadyRunning(probe))) => {
            assert_eq!(probe.state, HostState::Running);
            assert_eq!(probe.pid(), Some(std::process::id()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(log.said(), Vec::<String>::new());
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    assert_eq!(peer.text(route, "still here").await, "still here");
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// P7: those before it are shut down, in reverse; those after it never begin.
pub async fn p7_a_failed_initialize_takes_everything_back<R: Runtime>(bench: Bench<R>) {
    for kind in ["fails", "panics", "overruns"] {
        let (site, log) = (Site::default(), Log::default());
        let mut all = puppets(&log, &["a", "b", "c", "d"]);
        all[2].initialize = Box::new(move |_| match kind {
            "fails" => Box::pin(std::future::ready(Err("secret: no disk".into()))),
            "panics" => panic!("secret: in initialize"),
            _ => Box::pin(pending()),
        });
        let mut start = pin!(site.try_start(&bench, site.config(), components(all)));
        let started = poll_fn(|cx| {
            if bench.timers() > 0 && log.count("c initialize") == 1 {
                bench.advance(Duration::from_secs(30));
            }
            let polled = start.as_mut().poll(cx);
            if polled.is_pending() {
                cx.waker().wake_by_ref();
            }
            polled
        })
        .await;
        let Err(StartError::Initialize { module_id, cause, source }) = started else { panic!("{kind}") };
        let expected = match kind {
            "fails" => Cause::Failed,
            "panics" => Cause::Panicked,
            _ => Cause::Overran,
        };
        assert_eq!((module_id.as_str(), cause, source.is_some()), ("c", expected, kind == "fails"));
        assert_eq!(
            log.said(),
            ["a initialize", "b initialize", "c initialize", "b shutdown", "a shutdown"],
            "{kind}"
        );
        assert_eq!(site.state(), HostState::Stopped);
        assert!(!site.location.connection_file().exists());
    }
}

/// P7.
pub async fn p7_a_dropped_start_is_abandoned_in_order<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let mut all = puppets(&log, &["a", "b"]);
    all[1].initialize = Box::new(|_| Box::pin(pending()));
    {
        let mut start = pin!(Host::start(bench.clone(), site.config(), components(all)));
        poll_fn(|cx| {
            assert!(start.as_mut().poll(cx).is_pending());
            cx.waker().wake_by_ref();
            if log.count("b initialize") == 1 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert_eq!(site.state(), HostState::Starting);
    }
    bench.inner().until("the end", || site.state() == HostState::Stopped).await;
    assert_eq!(log.said(), ["a initialize", "b initialize", "a shutdown"]);
}

/// Design §5.
pub async fn a_dropped_handle_shuts_the_host_down<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let host = site.start(&bench, components(puppets(&log, &["a"]))).await;
    std::thread::spawn(move || drop(host)).join().unwrap(); // B128: on another thread, outside the runtime
    bench.inner().until("the end", || site.state() == HostState::Stopped).await;
    assert_eq!(log.said(), ["a initialize", "a shutdown"]);
}

/// §17 (6), H4, V50.
pub async fn s17_components_shut_down_last_and_in_reverse_order_whatever_one_of_them_does<R: Runtime>(
    bench: Bench<R>,
) {
    let (site, log) = (Site::default(), Log::default());
    let mut all = puppets(&log, &["a", "b", "c", "d"]);
    all[1].shutdown = Box::new(|_| Box::pin(async { Err("secret: failed".into()) }));
    all[2].shutdown = Box::new(|_| panic!("secret: panicked"));
    all[3].shutdown = Box::new(|_| Box::pin(pending()));
    let host = site.start(&bench, components(all)).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    peer.open(&to("tool_provider", "a", "s")).await.unwrap();
    host.shutdown();
    let end = peer.during(ended(&bench, &host)).await;
    assert_eq!(log.said()[4..], ["a bind", "a gone", "d shutdown", "c shutdown", "b shutdown", "a shutdown"]);
    let failures: Vec<_> = end.failures.iter().map(|one| (one.module_id.as_str(), one.cause)).collect();
    assert_eq!(failures, [("d", Cause::Overran), ("c", Cause::Panicked), ("b", Cause::Failed)]);
    assert!(end.failures.iter().all(|one| one.callback == Callback::Shutdown));
    assert!(!end.graceful() && !format!("{end:?}").contains("secret"));
    assert_eq!(site.state(), HostState::Stopped);
}

/// §17 (4), (5): `Goodbye` first, `route_gone` after it.
pub async fn s17_the_goodbye_leaves_before_route_gone_is_called<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let host = site.start(&bench, components(puppets(&log, &["lab"]))).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    peer.lab().await;
    host.shutdown();
    // The clock stands and the peer does nothing: its connection lingers.
    bench.inner().until("a drain", || site.state() == HostState::Stopping).await;
    bench.inner().until("the publication's end", || !site.location.connection_file().exists()).await;
    for _ in 0..50 {
        bench.inner().pause().await;
    }
    assert_eq!(log.said(), ["lab initialize", "lab bind"]);
    assert_eq!(peer.closed().await.0, CloseReason::PeerGoodbye);
    drop(peer);
    assert!(ended(&bench, &host).await.graceful());
    assert_eq!(log.said()[2..], ["lab gone", "lab shutdown"]);
}

/// H1, B089, V45: the whole response, then the `Goodbye`.
pub async fn h1_a_clients_shutdown_is_answered_first<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let mut other = Peer::connect(&bench, &site.location).await;
    let op = peer.start_shutdown();
    assert!(matches!(peer.outcome(op).await, Outcome::Terminal(Terminal::ShutdownCommitted)));
    assert_eq!(peer.closed().await.0, CloseReason::PeerGoodbye);
    assert_eq!(other.closed().await.0, CloseReason::PeerGoodbye);
    drop((peer, other));
    assert!(ended(&bench, &host).await.graceful());
}

/// B091, §17 (3): real terminals for what ends by itself, `cancelled` for what has to be stopped, refusals for what comes late.
pub async fn b091_running_work_gets_its_terminal_before_the_goodbye<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    let quick = peer.start(route, r#"{"do":"sleep","ms":1000}"#, false);
    let hang = peer.start(route, r#"{"do":"hang"}"#, false);
    let told = peer.start(route, r#"{"do":"slow_stop","ms":1000}"#, false);
    peer.text(route, "all are running").await;
    host.shutdown();
    peer.during(bench.inner().until("a drain", || site.state() == HostState::Stopping)).await;
    let late = peer.start(route, "late", false);
    assert_eq!(peer.code(late).await, "server_busy");
    let refused = peer.open(&to("tool_provider", "lab", "s")).await.unwrap_err();
    assert_eq!(refused.code(), "target_unavailable", "B6");
    let end = peer.during(ended(&bench, &host)).await;
    assert!(end.graceful(), "{end:?}");
    assert!(matches!(peer.outcome(quick).await, Outcome::Terminal(Terminal::Response { .. })));
    assert_eq!(peer.code(hang).await, "cancelled");
    // It ended within its grace and said so itself.
    assert_eq!(peer.code(told).await, "stopped");
    assert_eq!(peer.closed().await.0, CloseReason::PeerGoodbye);
}

/// P9: a start that takes long says so again every 20 s.
pub async fn p9_a_slow_start_renews_its_record<R: Runtime>(bench: Bench<R>) {
    use std::os::unix::fs::MetadataExt;
    let (site, log, door) = (Site::default(), Log::default(), Door::default());
    let mut all = puppets(&log, &["a"]);
    let at = door.clone();
    all[0].initialize = Box::new(move |_| {
        let at = at.clone();
        Box::pin(async move {
            at.pass().await;
            Ok(())
        })
    });
    let record = site.location.run_dir().join(hostwire::discovery::RECORD_FILE);
    let inode = || std::fs::metadata(&record).ok().map(|meta| meta.ino());
    let mut start = pin!(site.try_start(&bench, site.config(), components(all)));
    let mut poll_start = async |what: &dyn Fn() -> bool| {
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            assert!(start.as_mut().poll(cx).is_pending());
            if what() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    };
    poll_start(&|| log.count("a initialize") == 1).await;
    let first = inode();
    assert!(first.is_some());
    poll_start(&|| bench.timers() >= 2).await;
    bench.advance(Duration::from_millis(20_000));
    poll_start(&|| inode().is_some() && inode() != first).await;
    assert_eq!(site.state(), HostState::Starting);
    door.open();
    let host = start.await.unwrap();
    assert_eq!(site.state(), HostState::Running);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// Z2: what ended is still counted.
pub async fn z2_counters_outlive_their_connections<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    let base = bench.inner().ios();
    for _ in 0..3 {
        let mut peer = Peer::connect(&bench, &site.location).await;
        let route = peer.lab().await;
        peer.text(route, "x").await;
        drop(peer);
    }
    bench.inner().until("their ends", || bench.inner().ios() == base).await;
    let counters = host.counters().unwrap();
    assert_eq!((counters.dispatched, counters.routes), (3, 3));
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
    bench.inner().until("the hub's end", || host.counters().is_none()).await;
}

/// B120: 40 accepts that fail are 40 pauses, not a spin; who is connected is served all the while, and accepting goes on afterwards.
pub async fn b120_a_failing_accept_pauses_and_goes_on<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let drought = Drought::new(bench.clone());
    let host = Host::start(drought.clone(), site.config(), vec![Arc::new(Lab::new())]).await.unwrap();
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    drought.begin();
    let late = TcpStream::connect((Ipv4Addr::LOCALHOST, host.port())).unwrap();
    for round in 1..=40 {
        peer.during(bench.inner().until("a failure", || drought.failures() >= round)).await;
        for _ in 0..5 {
            peer.during(bench.inner().pause()).await;
        }
        assert_eq!(drought.failures(), round, "one try, then a pause");
        assert_eq!(peer.text(route, "served").await, "served");
        bench.advance(Duration::from_millis(100));
    }
    let before = bench.inner().ios();
    drought.end();
    peer.during(bench.inner().until("an accept", || {
        bench.advance(Duration::from_millis(100));
        bench.inner().ios() > before
    }))
    .await;
    drop((peer, late));
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// B085, B136.
pub async fn b085_a_peer_that_takes_nothing_is_cut_off_and_that_is_graceful<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    for _ in 0..4 {
        peer.start(route, r#"{"do":"big","size":16000000}"#, false);
    }
    peer.flushed().await;
    for _ in 0..50 {
        bench.inner().pause().await;
    }
    host.shutdown();
    let end = ended(&bench, &host).await;
    assert!(end.graceful(), "{end:?}");
    drop(peer);
}

/// B086, B131: parked readers do not delay the end; H5: no frame for them.
pub async fn b086_a_socket_without_a_handshake_does_not_delay_the_end<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    let before = bench.inner().ios();
    let mut silent = TcpStream::connect((Ipv4Addr::LOCALHOST, host.port())).unwrap();
    bench.inner().until("an accept", || bench.inner().ios() == before + 1).await;
    host.shutdown();
    let end = host.wait().await; // without the clock: nothing waits for a deadline
    assert!(end.graceful());
    assert!(matches!(silent.read(&mut [0; 1]), Ok(0) | Err(_)));
}

/// A8, V11, V39, B106: slots come back however a handshake ends.
pub async fn a8_over_the_handshake_slots_a_socket_is_closed_without_a_read<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let mut config = site.config();
    config.limits.handshakes = 2;
    let host = site.try_start(&bench, config, vec![Arc::new(Lab::new())]).await.unwrap();
    let before = bench.inner().ios();
    let dial = || TcpStream::connect((Ipv4Addr::LOCALHOST, host.port())).unwrap();
    for round in 0..3 {
        let (mut first, mut second) = (dial(), dial());
        bench.inner().until("two accepts", || bench.inner().ios() == before + 2).await;
        let mut third = dial();
        let read = bench.blocking(move || third.read(&mut [0; 1])).await.unwrap();
        assert!(matches!(read, Ok(0)), "closed, not reset: {read:?}");
        assert_eq!(bench.inner().ios(), before + 2, "the others stay");
        match round {
            // A6: garbage.
            0 => {
                first.write_all(&[0xff; 8]).unwrap();
                second.write_all(&[4, 0, 0, 0, b'n', b'u', b'l', b'l']).unwrap();
            }
            1 => drop((first, second)),
            // A5: silence, and a byte too few.
            _ => {
                first.write_all(&[4, 0, 0, 0, b'n']).unwrap();
                bench.advance(Duration::from_secs(2));
            }
        }
        bench.inner().until("two slots", || bench.inner().ios() == before).await;
    }
    let mut peer = Peer::connect(&bench, &site.location).await;
    peer.lab().await;
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// B122, B126.
pub async fn b122_a_thousand_resets_leave_nothing<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let mut puppet = Puppet::new("lab", &log);
    puppet.handle = Box::new(|cx| match cx.body().len() {
        0 => Handled::Future(Box::pin(pending())),
        _ => Reply::text(vec![7; 100_000]).into(),
    });
    let host = site.start(&bench, vec![Arc::new(puppet)]).await;
    let (tasks, ios) = (bench.inner().tasks(), bench.inner().ios());
    const ROUNDS: usize = 250;
    for _ in 0..ROUNDS {
        let mut peer = Peer::connect(&bench, &site.location).await;
        let route = peer.lab().await;
        peer.start(route, "", false);
        peer.start(route, "x", false);
        peer.flushed().await;
        drop(peer); // with unread input: a reset
    }
    bench
        .inner()
        .until("the baseline", || {
            log.count("lab gone") == ROUNDS && bench.inner().tasks() == tasks && bench.inner().ios() == ios
        })
        .await;
    assert_eq!(log.count("lab bind"), ROUNDS);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// AE9, H5.
pub async fn health_stays_inside_and_a_failing_probe_is_counted<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let mut all = puppets(&log, &["a", "b", "c"]);
    all[1].health = Box::new(|| Box::pin(std::future::ready(Health::Degraded("slow disk".into()))));
    all[2].health = Box::new(|| panic!("secret: in health"));
    let host = site.start(&bench, components(all)).await;
    let reports = host.health().await;
    let reports: Vec<_> = reports.iter().map(|(name, health)| (&**name, health.clone())).collect();
    assert_eq!(
        reports,
        [("a", Some(Health::Serving)), ("b", Some(Health::Degraded("slow disk".into()))), ("c", None)]
    );
    host.shutdown();
    let end = ended(&bench, &host).await;
    assert_eq!((end.failed, end.failures[0].callback), (1, Callback::Health));
    assert!(host.health().await.is_empty());
}

/// H4, P1: a handler that blocks its thread holds the lock past the drain and everything behind it, for as long as it blocks; then
/// the host ends by itself.
pub async fn h4_the_lock_stays_while_a_handler_blocks_its_thread<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let mut puppet = Puppet::new("lab", &log);
    let (began, begun) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (began, released) = (Mutex::new(began), Arc::new(Mutex::new(released)));
    puppet.handle = Box::new(move |_| {
        let (began, released) = (began.lock().unwrap().clone(), Arc::clone(&released));
        Handled::Future(Box::pin(async move {
            began.send(()).unwrap();
            let _ = released.lock().unwrap().recv();
            Reply::text(b"late".as_slice())
        }))
    });
    let host = site.start(&bench, vec![Arc::new(puppet)]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    // On a thread of its own: the handler may have the only one that the runtime has.
    let (clock, stopper, location) = (bench.clone(), host.stopper(), site.location.clone());
    let said = log.clone();
    let watching = bench.blocking(move || {
        begun.recv().unwrap();
        stopper.shutdown();
        for _ in 0..300 {
            clock.advance(Duration::from_millis(100));
            std::thread::sleep(Duration::from_millis(1));
            let state = probe(&location, unix_now_ms).expect("a probe").state;
            assert_ne!(state, HostState::Stopped, "its handler has not come back");
        }
        assert_eq!(said.count("lab gone") + said.count("lab shutdown"), 0, "§17: work ends first");
        drop(release);
    });
    peer.start(route, "block", false);
    peer.during(watching).await.expect("it stayed");
    let end = peer.during(ended(&bench, &host)).await;
    assert_eq!(site.state(), HostState::Stopped);
    assert_eq!(log.said(), ["lab initialize", "lab bind", "lab handle", "lab gone", "lab shutdown"]);
    drop((peer, end));
}

/// AE12: while a component opens its storage, everything but its own answers works; no reconnect is needed later.
pub async fn ae12_a_connection_serves_while_a_component_still_opens_its_storage<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let mut puppet = Puppet::new("lab", &log);
    let open = Arc::new(AtomicBool::new(false));
    let is_open = Arc::clone(&open);
    puppet.handle = Box::new(move |mut cx| {
        if is_open.load(Ordering::SeqCst) {
            return Reply::text(cx.take_body()).into();
        }
        Handled::Ready(Reply::Error(ErrorReply::new("store_unavailable", "not yet")))
    });
    let host = site.start(&bench, vec![Arc::new(puppet), Arc::new(LabReserved::default())]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let route = peer.lab().await;
    let early = peer.start(route, "early", false);
    assert_eq!(peer.code(early).await, "store_unavailable");
    assert_eq!(peer.catalog().await, ["lab", "lab-reserved"]);
    let other = peer.open(&to("management_surface", "lab-reserved", "s")).await.unwrap();
    assert_eq!(peer.text(other, "others work").await, "others work");
    open.store(true, Ordering::SeqCst);
    assert_eq!(peer.text(route, "now").await, "now");
    drop(peer);
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// T3: one listener, on the numeric loopback address of IPv4; no other address of this machine leads to it.
pub async fn t3_a_host_listens_on_the_ipv4_loopback_address_alone<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = site.start(&bench, vec![Arc::new(Lab::new())]).await;
    let port = host.port();
    let other = Ipv4Addr::new(127, 0, 0, 2);
    let refused = bench.blocking(move || {
        let v4 = TcpStream::connect((other, port)).map(drop).expect_err("another address");
        let v6 = TcpStream::connect((std::net::Ipv6Addr::LOCALHOST, port)).map(drop).expect_err("IPv6");
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("its own"));
        (v4.kind(), v6.kind())
    });
    let (v4, v6) = refused.await.unwrap();
    assert_eq!(v4, std::io::ErrorKind::ConnectionRefused);
    // A machine without IPv6 has another word for it.
    assert!(matches!(v6, std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::AddrNotAvailable));
    host.shutdown();
    assert!(ended(&bench, &host).await.graceful());
}

/// AE3, T2: whatever a client says that it is, it may do what any other may, and no more.
pub async fn ae3_invented_identity_scopes_state_and_grants_nothing<R: Runtime>(bench: Bench<R>) {
    let (site, log) = (Site::default(), Log::default());
    let mut puppet = Puppet::new("lab", &log);
    let said = log.clone();
    puppet.bind = Box::new(move |cx| {
        let open = cx.open();
        let consumer = open.consumer_identity().map_or("nobody", |consumer| consumer.module_id());
        said.say(format!("{consumer} in {}", open.identity().session()));
        Box::pin(std::future::ready(Ok(())))
    });
    let host = site.start(&bench, vec![Arc::new(puppet)]).await;
    let mut peer = Peer::connect(&bench, &site.location).await;
    let plain = peer.open(&to("tool_provider", "lab", "s")).await.unwrap();
    let invented = to("tool_provider", "lab", "root")
        .with_consumer_identity(ConsumerIdentity::new("the-host-itself", "all-powers").unwrap());
    let claimed = peer.open(&invented).await.unwrap();
    assert_ne!(plain, claimed, "R4: a scope of its own");
    // Exactly what it said, and nothing that it did not.
    let binds: Vec<_> = log.said().into_iter().filter(|said| said.contains(" in ")).collect();
    assert_eq!(binds, ["nobody in s", "the-host-itself in root"]);
    for (kind, module, code) in [
        ("management_surface", "lab", "target_unavailable"),
        ("administrator", "lab", "target_unavailable"),
        ("tool_provider", "the-host-itself", "unknown_module"),
    ] {
        let invented = to(kind, module, "root")
            .with_consumer_identity(ConsumerIdentity::new("the-host-itself", "all-powers").unwrap());
        assert_eq!(peer.open(&invented).await.unwrap_err().code(), code);
        assert_eq!(peer.open(&to(kind, module, "s")).await.unwrap_err().code(), code, "nor less");
    }
    for route in [plain, claimed] {
        assert_eq!(peer.text(route, "same").await, "same");
    }
    // H6: no claim is needed for what any authenticated client may do.
    let op = peer.start_shutdown();
    assert!(matches!(peer.outcome(op).await, Outcome::Terminal(Terminal::ShutdownCommitted)));
    assert!(peer.during(ended(&bench, &host)).await.graceful());
}
