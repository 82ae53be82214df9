//! A client that goes over to a granted Unix domain socket, against a raw host that does it right, wrong, or not at all.

use crate::Bench;
use crate::raw_host::{RawHost, credentials};
use crate::stage::{config, some_route};
use hostwire::Runtime;
use hostwire::client::{Client, ClientConfig, ConnectError, Transport};
use hostwire::core::json::{RawJson, write_object};
use hostwire::core::negotiate::{
    ActivationToken, Grant, Offer, OfferList, Response, encode_activate, encode_activated, encode_commit,
    encode_committed,
};
use hostwire::core::wire::{Correlation, FrameType};
use hostwire::discovery::Place;
use std::fs;
use std::future::{Future, poll_fn};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::task::Poll;
use std::time::Duration;
use tempfile::TempDir;

const TOKEN: [u8; 16] = [0xA7; 16];

/// `unix` first, then `tcp`.
///
/// # Panics
/// Never.
#[must_use]
pub fn unix_first() -> OfferList {
    OfferList::new(vec![Offer::unix(), Offer::tcp()]).expect("two offers")
}

/// A run directory with a door, the raw host of the bootstrap, and what its client needs.
struct Scene {
    dir: TempDir,
    host: RawHost,
    socket: OwnedFd,
    config: ClientConfig,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (host, socket) = RawHost::new();
        let place = Place::File(dir.path().join("subc-connection.json"));
        let config = ClientConfig { place, offers: unix_first(), ..config() };
        Self { dir, host, socket, config }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn door(&self, name: &str) -> (UnixListener, PathBuf) {
        let path = self.path(name);
        (listen(&path), path)
    }
}

fn listen(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).expect("a socket");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("its mode");
    listener
}

fn accept(listener: &UnixListener) -> RawHost {
    RawHost::over(listener.accept().expect("accepted").0)
}

impl RawHost {
    /// Authenticates and grants a candidate at this path.
    fn grant_unix(&mut self, path: &Path) {
        self.authenticate();
        let request = self.frame();
        let mut descriptor = Vec::new();
        write_object(&mut descriptor, |object| object.string("path", path.to_str().expect("text")));
        let descriptor = RawJson::new(&String::from_utf8(descriptor).expect("text")).expect("JSON");
        let grant = Grant::new(&Offer::unix(), ActivationToken::new(TOKEN), &descriptor).expect("a grant");
        self.respond(&request, &Response::Granted(grant).encode());
    }

    fn activate(&mut self) {
        let request = self.frame();
        assert_eq!(request.correlation(), Correlation::FIRST);
        assert_eq!(request.body, encode_activate(&ActivationToken::new(TOKEN)));
        self.respond(&request, &encode_activated());
    }

    fn commit(&mut self) {
        let request = self.frame();
        assert_eq!((request.correlation().value(), request.body.as_slice()), (2, &*encode_commit()));
        self.respond(&request, &encode_committed());
    }
}

async fn connect<R: Runtime>(
    bench: &Bench<R>,
    socket: OwnedFd,
    config: &ClientConfig,
) -> Result<Client, ConnectError> {
    Client::from_socket(bench, socket, credentials(), config).await
}

/// N10: activate, commit, then the generation as any other; the bootstrap is closed without a frame.
pub async fn n10_the_client_goes_on_over_the_granted_socket<R: Runtime>(bench: Bench<R>) {
    let scene = Scene::new();
    let (listener, path) = scene.door("door");
    let Scene { mut host, socket, config, dir: _dir } = scene;
    let serving = bench.blocking(move || {
        host.grant_unix(&path);
        let mut candidate = accept(&listener);
        candidate.activate();
        candidate.commit();
        assert!(host.rest().is_empty(), "N10");
        assert_eq!(candidate.grant(7, 77).correlation().value(), 3, "N10");
        let request = candidate.frame();
        candidate.respond(&request, b"there");
        candidate
    });
    let client = connect(&bench, socket, &config).await.expect("connected");
    assert_eq!(client.transport(), Transport::Candidate);
    assert_eq!(client.daemon_id(), credentials().daemon_id);
    let route = client.open(some_route()).await.expect("a route");
    let reply = route.request("where").await.expect("an answer");
    assert_eq!(reply.body.as_slice(), b"there");
    let mut candidate = serving.await.expect("served");
    let closing = bench.blocking(move || candidate.rest());
    drop((client, route));
    let rest = closing.await.expect("closed");
    assert_eq!(rest.last().expect("frames").header.kind, FrameType::Goodbye);
}

/// N14: what a client connects to is an owner-only socket of its own user inside the discovery file's directory, on a way without links.
pub async fn n14_no_other_path_is_connected_to<R: Runtime>(bench: Bench<R>) {
    type Make = fn(&Scene, &Path) -> (Option<UnixListener>, PathBuf);
    let cases: [(&str, Make); 12] = [
        ("outside", |_, other| (Some(listen(&other.join("door"))), other.join("door"))),
        ("outside", |scene, other| {
            let (up, name) = (Path::new(".."), other.file_name().expect("a name"));
            (Some(listen(&other.join("door"))), scene.path("x").with_file_name(up).join(name).join("door"))
        }),
        ("outside", |scene, _| {
            let sibling = PathBuf::from(format!("{}-2", scene.dir.path().display()));
            (None, sibling.join("door"))
        }),
        ("outside", |scene, _| (None, scene.dir.path().to_owned())),
        ("outside", |scene, _| (Some(scene.door("door").0), PathBuf::from("door"))),
        ("nothing", |scene, _| (None, scene.path("door"))),
        ("safe", |scene, other| {
            let listener = listen(&other.join("door"));
            symlink(other.join("door"), scene.path("door")).expect("a link");
            (Some(listener), scene.path("door"))
        }),
        ("safe", |scene, other| {
            let listener = listen(&other.join("door"));
            symlink(other, scene.path("sub")).expect("a link");
            (Some(listener), scene.path("sub").join("door"))
        }),
        ("safe", |scene, _| {
            fs::write(scene.path("door"), b"").expect("a file");
            fs::set_permissions(scene.path("door"), fs::Permissions::from_mode(0o600)).expect("its mode");
            (None, scene.path("door"))
        }),
        ("safe", |scene, _| {
            let (listener, path) = scene.door("door");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("its mode");
            (Some(listener), path)
        }),
        ("safe", |scene, _| {
            let (listener, path) = scene.door("door");
            fs::set_permissions(scene.dir.path(), fs::Permissions::from_mode(0o777)).expect("its mode");
            (Some(listener), path)
        }),
        // Stale: whoever listened there has gone.
        ("cannot connect", |scene, _| (None, scene.door("door").1)),
    ];
    for (part, make) in cases {
        let (scene, other) = (Scene::new(), tempfile::tempdir().expect("a directory"));
        let (listener, path) = make(&scene, other.path());
        let Scene { mut host, socket, config, dir: _dir } = scene;
        let shown = path.clone();
        let serving = bench.blocking(move || {
            host.grant_unix(&path);
            host.rest()
        });
        let error = connect(&bench, socket, &config).await.expect_err("refused");
        assert_eq!(error.code(), "negotiation_failed", "{error}");
        assert_eq!(error.daemon_id(), Some(credentials().daemon_id));
        assert!(error.to_string().contains(part), "{part}: {error}, {}", shown.display());
        for text in [format!("{error}"), format!("{error:?}")] {
            assert!(!text.contains("door") && !text.contains("a7a7"), "N15: {text}");
        }
        assert!(serving.await.expect("served").is_empty(), "N11: the bootstrap ends without a frame");
        if let Some(listener) = listener {
            listener.set_nonblocking(true).expect("non-blocking");
            assert!(listener.accept().is_err(), "{part}: nobody came");
        }
    }
}

/// N14: a socket in a directory of ours below is inside as well.
pub async fn n14_a_directory_below_is_inside<R: Runtime>(bench: Bench<R>) {
    let scene = Scene::new();
    fs::create_dir(scene.path("below")).expect("a directory");
    let (listener, path) = scene.door("below/door");
    let Scene { mut host, socket, config, dir: _dir } = scene;
    let serving = bench.blocking(move || {
        host.grant_unix(&path);
        let mut candidate = accept(&listener);
        candidate.activate();
        candidate.commit();
        (host, candidate)
    });
    let client = connect(&bench, socket, &config).await.expect("connected");
    drop((client, serving.await.expect("served")));
}

/// N11: whatever goes wrong on either connection before the commit ends both.
pub async fn n11_before_the_commit_the_end_of_one_is_the_end_of_both<R: Runtime>(bench: Bench<R>) {
    type Play = fn(RawHost, &UnixListener);
    let cases: [Play; 6] = [
        |mut host, listener| {
            drop(accept(listener));
            host.rest();
        },
        |mut host, listener| {
            let mut candidate = accept(listener);
            candidate.activate();
            drop(candidate);
            host.rest();
        },
        |host, listener| {
            let mut candidate = accept(listener);
            candidate.frame();
            drop(host);
            candidate.rest();
        },
        |host, listener| {
            // A host that has not committed ends both.
            let mut candidate = accept(listener);
            candidate.activate();
            candidate.frame();
            drop((host, candidate));
        },
        |mut host, listener| {
            let mut candidate = accept(listener);
            let request = candidate.frame();
            candidate.respond(&request, &encode_committed());
            candidate.rest();
            host.rest();
        },
        |mut host, listener| {
            let mut candidate = accept(listener);
            let request = candidate.frame();
            candidate.refuse(&request, "wrong_token");
            candidate.rest();
            host.rest();
        },
    ];
    for (case, play) in cases.into_iter().enumerate() {
        let scene = Scene::new();
        let (listener, path) = scene.door("door");
        let Scene { mut host, socket, config, dir: _dir } = scene;
        let serving = bench.blocking(move || {
            host.grant_unix(&path);
            play(host, &listener);
        });
        let error = connect(&bench, socket, &config).await.expect_err("no connection");
        assert_eq!(error.code(), "negotiation_failed", "{case}: {error}");
        serving.await.expect("both are closed");
        bench.inner().assert_nothing_left().await;
    }
}

/// N10: a host may close the bootstrap as soon as it has committed; its answer counts, however late it is read.
pub async fn n10_a_bootstrap_that_is_closed_behind_the_commit_touches_nothing<R: Runtime>(bench: Bench<R>) {
    let scene = Scene::new();
    let (listener, path) = scene.door("door");
    let Scene { mut host, socket, config, dir: _dir } = scene;
    let serving = bench.blocking(move || {
        host.grant_unix(&path);
        let mut candidate = accept(&listener);
        candidate.activate();
        let request = candidate.frame();
        drop(host);
        (request, candidate)
    });
    let (bench_, config_) = (bench.clone(), config.clone());
    let mut connecting = Box::pin(async move { connect(&bench_, socket, &config_).await });
    assert!(poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await);
    let mut serving = std::pin::pin!(serving);
    let (request, mut candidate) = poll_fn(|cx| {
        assert!(connecting.as_mut().poll(cx).is_pending(), "not without the commit");
        serving.as_mut().poll(cx)
    })
    .await
    .expect("served");
    // Its end has been seen.
    bench.inner().until("the end of the bootstrap", || bench.inner().ios() == 1).await;
    assert!(poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await);
    candidate.respond(&request, &encode_committed());
    let client = connecting.await.expect("connected");
    assert_eq!(client.transport(), Transport::Candidate);
    let closing = bench.blocking(move || candidate.rest());
    drop(client);
    closing.await.expect("closed");
}

/// E1: the candidate shares the setup's one deadline.
pub async fn e1_a_silent_candidate_is_left_at_the_one_deadline<R: Runtime>(bench: Bench<R>) {
    let scene = Scene::new();
    let (listener, path) = scene.door("door");
    let Scene { mut host, socket, config, dir: _dir } = scene;
    let serving = bench.blocking(move || {
        host.grant_unix(&path);
        let mut candidate = accept(&listener);
        candidate.frame();
        (host, candidate)
    });
    let (bench_, config_) = (bench.clone(), config.clone());
    let mut connecting = Box::pin(async move { connect(&bench_, socket, &config_).await });
    let mut serving = std::pin::pin!(serving);
    let (mut host, mut candidate) = poll_fn(|cx| {
        assert!(connecting.as_mut().poll(cx).is_pending());
        serving.as_mut().poll(cx)
    })
    .await
    .expect("served");
    bench.advance(Duration::from_micros(1_999_999));
    assert!(poll_fn(|cx| Poll::Ready(connecting.as_mut().poll(cx).is_pending())).await);
    bench.advance(Duration::from_micros(1));
    assert_eq!(connecting.await.expect_err("not connected").code(), "handshake_timeout");
    let closing = bench.blocking(move || (host.rest().len(), candidate.rest().len()));
    assert_eq!(closing.await.expect("closed"), (0, 0));
}

/// Dropping the future of a connect at every point on the way over closes both connections.
pub async fn a_connect_that_is_dropped_on_the_way_over_leaves_nothing<R: Runtime>(bench: Bench<R>) {
    for step in 0..3 {
        let scene = Scene::new();
        let (listener, path) = scene.door("door");
        let Scene { mut host, socket, config, dir: _dir } = scene;
        let (bench_, config_) = (bench.clone(), config.clone());
        let mut connecting = Box::pin(async move { connect(&bench_, socket, &config_).await });
        let serving = bench.blocking(move || {
            host.grant_unix(&path);
            let mut candidate = (step > 0).then(|| accept(&listener));
            if let (2.., Some(candidate)) = (step, &mut candidate) {
                candidate.activate();
            }
            (host, candidate, listener)
        });
        let mut serving = std::pin::pin!(serving);
        let (mut host, candidate, _listener) = poll_fn(|cx| {
            assert!(connecting.as_mut().poll(cx).is_pending());
            serving.as_mut().poll(cx)
        })
        .await
        .expect("served");
        drop(connecting);
        let closing = bench.blocking(move || {
            drop(candidate);
            host.rest().len()
        });
        assert_eq!(closing.await.expect("closed"), 0);
        bench.inner().assert_nothing_left().await;
    }
}
