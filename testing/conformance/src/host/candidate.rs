//! A host that goes over to a Unix domain socket, with clients that do it right, wrong, or not at all.

use super::peer::{Peer, path_of, to};
use super::{Site, ended, pass};
use crate::Bench;
use crate::candidate::unix_first;
use hostwire::Runtime;
use hostwire::client::{Client, ClientConfig, Consumer, Request, Transport};
use hostwire::component::Component;
use hostwire::core::fault::CloseReason;
use hostwire::core::json::RawJson;
use hostwire::core::negotiate::{
    ActivationToken, FallbackReason, Offer, OfferList, TransportName, encode_activate, encode_commit,
};
use hostwire::core::wire::{Correlation, Flags, FrameType, Header, Identity, Priority};
use hostwire::discovery::Place;
use hostwire::{HostConfig, HostHandle};
use hostwire_lab::Lab;
use std::fs;
use std::io::{Read, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

fn lab() -> Vec<Arc<dyn Component>> {
    vec![Arc::new(Lab::new())]
}

fn with_unix(site: &Site) -> HostConfig {
    let mut config = site.config();
    config.unix = true;
    config
}

async fn start<R: Runtime>(bench: &Bench<R>, site: &Site) -> HostHandle {
    site.try_start(bench, with_unix(site), lab()).await.expect("a host")
}

fn client_of(site: &Site, offers: OfferList) -> ClientConfig {
    let place = Place::File(site.location.connection_file().to_owned());
    ClientConfig { place, offers, consumer: Consumer::Anonymous, ..ClientConfig::default() }
}

/// The sockets in the run directory.
fn doors(site: &Site) -> usize {
    let entries = fs::read_dir(site.location.run_dir()).expect("a run directory");
    entries
        .filter(|entry| {
            entry.as_ref().is_ok_and(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
        })
        .count()
}

async fn no_doors<R: Runtime>(bench: &Bench<R>, site: &Site) {
    bench.inner().until("no door", || doors(site) == 0).await;
}

async fn stop<R: Runtime>(bench: &Bench<R>, site: &Site, host: &HostHandle) {
    host.shutdown();
    let end = ended(bench, host).await;
    assert!(end.graceful(), "{end:?}");
    assert_eq!(doors(site), 0, "N14: nothing is left");
}

/// N10, AE1: everything goes over the socket, whose path is gone by then.
pub async fn n10_a_call_a_stream_and_a_big_body_go_over_a_unix_socket<R: Runtime>(bench: Bench<R>) {
    const BIG: usize = 3 << 20;
    let site = Site::default();
    let host = start(&bench, &site).await;
    let client = Client::connect(&bench, &client_of(&site, unix_first())).await.expect("connected");
    assert_eq!(client.transport(), Transport::Candidate);
    assert_eq!(client.daemon_id(), host.daemon_id());
    no_doors(&bench, &site).await;
    let route = client.open(to("tool_provider", "lab", "s")).await.expect("a route");
    let reply = route.request(r#"{"do":"echo","value":1}"#).await.expect("an answer");
    assert_eq!(reply.body.as_slice(), br#"{"echo":1}"#);
    let mut stream = route.stream(r#"{"do":"stream","items":10,"size":1000}"#);
    let mut items = 0;
    while let Some(item) = stream.next().await {
        assert_eq!(item.expect("an item").body.len(), 1_000);
        items += 1;
    }
    assert_eq!(items, 10);
    let big: Vec<u8> = (0..BIG).map(|i| u8::try_from(i % 251).expect("small")).collect();
    let reply = route.request(Request::new(big.clone()).binary()).await.expect("an answer");
    assert!(reply.body.as_slice() == big, "the same bytes");
    drop((stream, route));
    assert_eq!(client.close().await, CloseReason::Local);
    drop(client);
    stop(&bench, &site, &host).await;
}

fn offer(name: &str, version: u32, parameters: Option<&str>) -> Offer {
    let parameters = parameters.map(|text| RawJson::new(text).expect("JSON"));
    let name = TransportName::new(name).expect("a name");
    Offer::new(name, NonZeroU32::new(version).expect("a version"), parameters.as_ref()).expect("an offer")
}

/// N5, N7, N14, V54.
pub async fn n5_n7_what_cannot_be_granted_falls_back_with_its_reason<R: Runtime>(bench: Bench<R>) {
    let mismatch = Some(FallbackReason::CapabilityVersionMismatch);
    let tcp = Offer::tcp;
    let site = Site::default();
    let host = start(&bench, &site).await;
    let cases = [
        (vec![offer("unix", 2, None), tcp()], Transport::Tcp { reason: mismatch }),
        (vec![offer("pipe", 1, None), tcp()], Transport::Tcp { reason: None }),
        (vec![offer("unix", 1, Some(r#"{"x":1}"#)), tcp()], Transport::Tcp { reason: None }),
        (vec![tcp(), Offer::unix()], Transport::Tcp { reason: None }),
        (vec![offer("unix", 1, Some("{}")), tcp()], Transport::Candidate),
        (vec![offer("unix", 2, None), Offer::unix(), tcp()], Transport::Candidate),
    ];
    let check = async |site: &Site, offers, expected| {
        let offers = OfferList::new(offers).expect("offers");
        let client = Client::connect(&bench, &client_of(site, offers)).await.expect("connected");
        assert_eq!(client.transport(), expected);
        let route = client.open(to("tool_provider", "lab", "s")).await.expect("a route");
        assert_eq!(route.request("x").await.expect("an answer").body.as_slice(), b"x");
        no_doors(&bench, site).await;
    };
    for (offers, expected) in cases {
        check(&site, offers, expected).await;
    }
    stop(&bench, &site, &host).await;

    // A host that was not told to serve it, and one whose run directory is too far away for a socket's address.
    let plain = Site::default();
    let host = plain.start(&bench, lab()).await;
    check(&plain, vec![Offer::unix(), tcp()], Transport::Tcp { reason: None }).await;
    stop(&bench, &plain, &host).await;
    let far = Site::at(|dir| dir.join("d".repeat(100)));
    let host = start(&bench, &far).await;
    let unavailable = Transport::Tcp { reason: Some(FallbackReason::Unavailable) };
    check(&far, vec![Offer::unix(), tcp()], unavailable).await;
    stop(&bench, &far, &host).await;
}

/// N10: the host leaves the closing of the bootstrap to its client, until that is known to have the commit.
pub async fn n10_after_the_commit_the_bootstraps_end_touches_nothing<R: Runtime>(bench: Bench<R>) {
    for closes in [true, false] {
        let site = Site::default();
        let host = start(&bench, &site).await;
        let (mut bootstrap, grant) = Peer::granted(&bench, &site.location).await;
        let mut candidate = Peer::candidate(&bench, grant).await;
        bootstrap.during(candidate.ready()).await;
        for _ in 0..20 {
            bootstrap.during(bench.inner().pause()).await;
        }
        assert!(!bootstrap.is_closed(), "its end could overtake the commit's response");
        let left = if closes {
            drop(bootstrap);
            None
        } else {
            Some(bootstrap)
        };
        let route = candidate.lab().await;
        assert_eq!(candidate.text(route, "still here").await, "still here");
        if let Some(mut bootstrap) = left {
            assert_eq!(bootstrap.closed().await.0, CloseReason::Eof, "superseded");
            assert_eq!(host.counters().expect("it runs").retired.superseded, 1);
        }
        // The setup's deadline was the bootstrap's.
        bench.advance(Duration::from_secs(60));
        assert_eq!(candidate.text(route, "and now").await, "and now");
        drop(candidate);
        stop(&bench, &site, &host).await;
    }
}

/// N10: while it lives, and when it has gone.
pub async fn n10_the_pair_counts_as_one_connection<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let mut config = with_unix(&site);
    config.limits.connections = 1;
    let host = site.try_start(&bench, config, lab()).await.expect("a host");
    let ios = bench.inner().ios();
    for _ in 0..3 {
        let client = Client::connect(&bench, &client_of(&site, unix_first())).await.expect("connected");
        assert_eq!(client.transport(), Transport::Candidate);
        let over = Client::connect(&bench, &client_of(&site, unix_first())).await.expect_err("A9");
        assert_eq!(over.code(), "negotiation_failed");
        client.close().await;
        drop(client);
        bench.inner().until("its end", || bench.inner().ios() == ios).await;
    }
    stop(&bench, &site, &host).await;
}

fn request(corr: u64, body: &[u8]) -> Vec<u8> {
    let identity = Identity::Control(Correlation::new(corr).expect("a correlation"));
    let len = u32::try_from(body.len()).expect("short");
    let flags = Flags::data(false, Priority::Interactive);
    let mut bytes = Header { len, kind: FrameType::Request, flags, identity }.encode().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// What comes back on a blocking stream until its end.
async fn rest_of<R: Runtime>(bench: &Bench<R>, mut stream: UnixStream) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let reading = bench.blocking(move || {
        let mut all = Vec::new();
        match stream.read_to_end(&mut all) {
            Ok(_) => all,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => all,
            Err(error) => panic!("no end: {error}"),
        }
    });
    reading.await.expect("read")
}

/// N11: without a frame.
pub async fn n11_a_wrong_token_or_another_first_frame_ends_both<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = start(&bench, &site).await;
    let wrong = encode_activate(&ActivationToken::new([0; 16]));
    let catalog = br#"{"op":"catalog.list"}"#;
    for bytes in
        [request(1, &wrong), request(1, catalog), request(1, &encode_commit()), b"GET / HTTP/1.1".to_vec()]
    {
        let (mut bootstrap, grant) = Peer::granted(&bench, &site.location).await;
        let mut stream = UnixStream::connect(path_of(&grant)).expect("a door");
        stream.write_all(&bytes).expect("written");
        assert_eq!(rest_of(&bench, stream).await, b"");
        assert_eq!(bootstrap.closed().await.0, CloseReason::Eof);
    }
    // A token of another grant is a wrong one, and so is a good one under another correlation.
    let (mut first, one) = Peer::granted(&bench, &site.location).await;
    let (mut second, other) = Peer::granted(&bench, &site.location).await;
    assert!(one.token() != other.token(), "N11: fresh per grant");
    for (grant, bytes) in [
        (&one, request(1, &encode_activate(other.token()))),
        (&other, request(2, &encode_activate(other.token()))),
    ] {
        let mut stream = UnixStream::connect(path_of(grant)).expect("a door");
        stream.write_all(&bytes).expect("written");
        assert_eq!(rest_of(&bench, stream).await, b"");
    }
    assert_eq!(first.closed().await.0, CloseReason::Eof);
    assert_eq!(second.closed().await.0, CloseReason::Eof);
    stop(&bench, &site, &host).await;
}

/// N14: mode 0600, in the run directory, absolute, fresh; the second to come is turned away.
pub async fn n14_the_door_is_owner_only_and_lets_in_one<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = start(&bench, &site).await;
    let (mut bootstrap, grant) = Peer::granted(&bench, &site.location).await;
    let path = path_of(&grant);
    assert_eq!(path.parent(), Some(site.location.run_dir()));
    let door = fs::symlink_metadata(&path).expect("a door");
    assert!(door.file_type().is_socket());
    assert_eq!(door.mode() & 0o7777, 0o600);
    let (mut other, another) = Peer::granted(&bench, &site.location).await;
    assert_ne!(path_of(&another), path, "fresh");
    drop(UnixStream::connect(path_of(&another)).expect("a door"));
    assert_eq!(other.closed().await.0, CloseReason::Eof);

    let mut candidate = Peer::candidate(&bench, grant).await;
    let second = UnixStream::connect(&path);
    bootstrap.during(candidate.ready()).await;
    if let Ok(second) = second {
        assert_eq!(rest_of(&bench, second).await, b"", "it may have come before the door was closed");
    }
    no_doors(&bench, &site).await;
    assert!(UnixStream::connect(&path).is_err());
    candidate.lab().await;
    drop((candidate, bootstrap));
    stop(&bench, &site, &host).await;
}

/// N11, N14.
pub async fn n11_before_the_commit_the_end_of_one_is_the_end_of_both<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = start(&bench, &site).await;
    // The bootstrap goes before anybody has come: the door with it.
    let (bootstrap, grant) = Peer::granted(&bench, &site.location).await;
    drop(bootstrap);
    no_doors(&bench, &site).await;
    assert!(UnixStream::connect(path_of(&grant)).is_err());
    // It goes before the activation, and behind it.
    for activated in [false, true] {
        let (bootstrap, grant) = Peer::granted(&bench, &site.location).await;
        let mut stream = UnixStream::connect(path_of(&grant)).expect("a door");
        if activated {
            stream.write_all(&request(1, &encode_activate(grant.token()))).expect("written");
            let reading = bench.blocking(move || {
                stream.read_exact(&mut [0; 21]).expect("an answer");
                stream
            });
            stream = reading.await.expect("read");
        }
        no_doors(&bench, &site).await;
        drop(bootstrap);
        rest_of(&bench, stream).await;
    }
    // The candidate goes, or the bootstrap says something.
    for activated in [false, true] {
        let (mut bootstrap, grant) = Peer::granted(&bench, &site.location).await;
        let mut stream = UnixStream::connect(path_of(&grant)).expect("a door");
        if activated {
            stream.write_all(&request(1, &encode_activate(grant.token()))).expect("written");
        }
        drop(stream);
        assert_eq!(bootstrap.closed().await.0, CloseReason::Eof);
    }
    stop(&bench, &site, &host).await;
}

/// N14, E1.
pub async fn n14_a_door_that_nobody_comes_to_closes_with_the_setups_deadline<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = start(&bench, &site).await;
    let (mut bootstrap, grant) = Peer::granted(&bench, &site.location).await;
    let (mut idle, other) = Peer::granted(&bench, &site.location).await;
    let stream = UnixStream::connect(path_of(&other)).expect("a door");
    bench.inner().until("one door less", || doors(&site) == 1).await;
    pass(&bench, &mut bootstrap, Duration::from_millis(200), Peer::is_closed).await;
    assert_eq!(idle.closed().await.0, CloseReason::Eof);
    rest_of(&bench, stream).await;
    no_doors(&bench, &site).await;
    assert!(UnixStream::connect(path_of(&grant)).is_err());
    stop(&bench, &site, &host).await;
}

/// H5, §17: a setup is cut off, a candidate that is the connection gets its `Goodbye`.
pub async fn s17_a_shutdown_closes_doors_and_candidates<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = start(&bench, &site).await;
    let (mut waiting, _grant) = Peer::granted(&bench, &site.location).await;
    let (mut idle, other) = Peer::granted(&bench, &site.location).await;
    let stream = UnixStream::connect(path_of(&other)).expect("a door");
    let client = Client::connect(&bench, &client_of(&site, unix_first())).await.expect("connected");
    let route = client.open(to("tool_provider", "lab", "s")).await.expect("a route");
    bench.inner().until("one door", || doors(&site) == 1).await;
    let closed = client.closed();
    stop(&bench, &site, &host).await;
    assert_eq!(closed.await, CloseReason::PeerGoodbye);
    assert_eq!(waiting.closed().await.0, CloseReason::Eof);
    assert_eq!(idle.closed().await.0, CloseReason::Eof);
    rest_of(&bench, stream).await;
    drop((client, route));
}

fn age(path: &Path, minutes: u64) {
    let then = SystemTime::now() - Duration::from_secs(60 * minutes);
    let since = then.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let spec = rustix::fs::Timespec { tv_sec: i64::try_from(since.as_secs()).expect("a time"), tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: spec, last_modification: spec };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .expect("aged");
}

/// P4: older than ten minutes, by its private name only.
pub async fn p4_n14_a_killed_predecessors_door_is_swept<R: Runtime>(bench: Bench<R>) {
    let site = Site::default();
    let host = start(&bench, &site).await;
    let (bootstrap, grant) = Peer::granted(&bench, &site.location).await;
    let own = path_of(&grant);
    drop(bootstrap);
    stop(&bench, &site, &host).await;
    let foreign = site.location.run_dir().join("somebody-elses.sock");
    for path in [&own, &foreign] {
        drop(UnixListener::bind(path).expect("a socket"));
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its mode");
        age(path, 11);
    }
    let host = start(&bench, &site).await;
    assert!(!own.exists());
    assert!(foreign.exists());
    fs::remove_file(&foreign).expect("removed");
    stop(&bench, &site, &host).await;
}
