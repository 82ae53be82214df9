//! Vectors over real sockets: a whole client or a whole host on a runtime is the subject, a raw peer on a thread plays the other end.
//!
//! [`play`] is the reusable part: one case, on any runtime. What a socket cannot play is [`Peer::core_only`]'s to say.

mod client;

use crate::Bench;
use client::ClientUnderTest;
use hostwire::client::Client;
use hostwire::core::auth::{Credentials, DaemonId, Key};
use hostwire::core::client::session::RetryPolicy;
use hostwire::core::negotiate::{Offer, OfferList};
use hostwire::discovery::{Environment, Location, Place, read_snapshot};
use hostwire::{Host, HostConfig, Runtime};
use hostwire_lab::{Lab, LabReserved};
use hostwire_vectors::{
    Action, Body, Case, CoreOnly, Difference, Divergence, Exchange, LabHost, Peer, Subject, Surroundings,
    Vector,
};
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long the raw peer waits for one step of its subject: a hang, not a measure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Plays one case of a vector against a client or a host on `runtime`, whichever the vector is about.
///
/// The subject is made for this case alone and is gone at its end: a client with everything at its defaults but retries, which
/// vectors do not know; a host in a temporary directory with the components `lab` and `lab-reserved`. Each step waits at most
/// `patience` for it. The peer blocks a thread of the runtime meanwhile.
///
/// # Errors
/// The first divergence; that the case is [for the core only](Peer::core_only) is one as well, and that the subject could not be made.
pub async fn play<R: Runtime>(
    runtime: &R,
    vector: &Vector,
    case: &Case,
    patience: Duration,
) -> Result<(), Divergence> {
    // The peer's thread may outlive a future that is dropped.
    let vector = Arc::new(Vector { cases: Vec::new(), ..vector.clone() });
    let made = match (&vector.exchange, Peer::core_only(&vector, case)) {
        (Some(exchange), None) => match exchange.subject {
            Subject::Client => play_client(runtime, Arc::clone(&vector), exchange, case, patience).await,
            Subject::Host => play_host(runtime, Arc::clone(&vector), case, patience).await,
        },
        (Some(_) | None, why) => Err(why.map_or("no exchange", CoreOnly::reason).to_owned()),
    };
    made.unwrap_or_else(|why| {
        let file = Arc::from(vector.path.display().to_string());
        let differences = vec![Difference::new("subject", "made", why)];
        Err(Divergence { file, line: case.line, manner: "over a socket", differences })
    })
}

/// A2: no two attempts of this process share a nonce. The subject's own is random.
fn nonce() -> [u8; 32] {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut nonce = [0x5a; 32];
    for (to, from) in nonce.iter_mut().zip(NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes()) {
        *to = from;
    }
    nonce
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

async fn play_client<R: Runtime>(
    runtime: &R,
    vector: Arc<Vector>,
    exchange: &Exchange,
    case: &Case,
    patience: Duration,
) -> Result<Result<(), Divergence>, String> {
    let offers = exchange.offers.iter().map(|name| match name.as_str() {
        "tcp" => Ok(Offer::tcp()),
        "unix" => Ok(Offer::unix()),
        other => Err(format!("`{other}` is no transport that the client offers")),
    });
    let offers = OfferList::new(offers.collect::<Result<_, _>>()?).map_err(text)?;
    let config =
        hostwire::client::ClientConfig { offers, retry: RetryPolicy::NONE, ..crate::stage::config() };
    let credentials = Credentials {
        key: Key::new([0x11; 32]),
        daemon_id: DaemonId::new([0x22; 16]),
        daemon_ver: "vectors/1".into(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
    let socket = TcpStream::connect(listener.local_addr().map_err(text)?).map_err(text)?;
    socket.set_nonblocking(true).map_err(text)?;
    let (stream, _) = listener.accept().map_err(text)?;
    let (own, told) = (runtime.clone(), credentials.clone());
    let connecting = async move { Client::from_socket(&own, socket.into(), told, &config).await };
    let around = ClientUnderTest::new(Box::pin(connecting), patience);
    let peer = Peer::new(stream, credentials, nonce(), patience);
    on_a_thread(runtime, peer, vector, case, around).await
}

async fn play_host<R: Runtime>(
    runtime: &R,
    vector: Arc<Vector>,
    case: &Case,
    patience: Duration,
) -> Result<Result<(), Divergence>, String> {
    let dir = tempfile::tempdir().map_err(text)?;
    let environment = Environment { xdg_data_home: Some(dir.path().into()), ..Environment::default() };
    let location = Location::resolve(&environment, &Place::Default).map_err(text)?;
    let config = HostConfig::new(location.clone(), "vectors/1");
    let host =
        Host::start(runtime.clone(), config, vec![Arc::new(Lab::new()), Arc::new(LabReserved::default())])
            .await
            .map_err(text)?;
    let snapshot = read_snapshot(&location).map_err(text)?;
    let stream = TcpStream::connect(("127.0.0.1", host.port())).map_err(text)?;
    let peer = Peer::new(stream, snapshot.credentials, nonce(), patience);
    let played = on_a_thread(runtime, peer, vector, case, LabHost).await;
    host.shutdown();
    host.wait().await;
    played
}

async fn on_a_thread<R: Runtime>(
    runtime: &R,
    peer: Peer,
    vector: Arc<Vector>,
    case: &Case,
    mut around: impl Surroundings + Send + 'static,
) -> Result<Result<(), Divergence>, String> {
    let case = case.clone();
    runtime.blocking(move || peer.play(&vector, &case, &mut around)).await.map_err(text)
}

/// Every case about this subject that a socket can play, and how many were left to the core, by the reason.
///
/// # Panics
/// With every divergence.
async fn play_all<R: Runtime>(bench: &Bench<R>, subject: Subject) -> (usize, BTreeMap<CoreOnly, usize>) {
    let mut played = 0;
    let mut left = BTreeMap::new();
    let mut failures = Vec::new();
    for (vector, case) in cases(subject) {
        if let Some(why) = Peer::core_only(&vector, &case) {
            *left.entry(why).or_default() += 1;
            continue;
        }
        played += 1;
        if let Err(divergence) = play(bench, &vector, &case, PATIENCE).await {
            failures.push(format!("{}\n{divergence}", case.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    (played, left)
}

fn cases(subject: Subject) -> impl Iterator<Item = (Arc<Vector>, Case)> {
    let vectors = hostwire_vectors::load_all(&hostwire_vectors::files()).expect("all load");
    let about = move |vector: &Vector| vector.exchange.as_ref().is_some_and(|how| how.subject == subject);
    vectors.into_iter().filter(about).flat_map(|vector| {
        let vector = Arc::new(vector);
        let cases = vector.cases.clone();
        cases.into_iter().map(move |case| (Arc::clone(&vector), case))
    })
}

/// Those that a vector about this subject may be left to the core for.
fn left_for_a_reason(left: &BTreeMap<CoreOnly, usize>) {
    let reasons: Vec<_> = left.keys().copied().collect();
    assert_eq!(reasons, [CoreOnly::Clock, CoreOnly::SecondSocket, CoreOnly::Cut, CoreOnly::Fixed]);
}

/// Every vector about a client that a socket can play; the others are left to the core, for a reason each.
///
/// # Panics
/// With every divergence.
pub async fn vectors_hold_for_a_client_over_a_socket<R: Runtime>(bench: Bench<R>) {
    let (played, left) = play_all(&bench, Subject::Client).await;
    assert!(played >= 150, "{played}");
    left_for_a_reason(&left);
}

/// Every vector about a host that a socket can play, each against a host of its own.
///
/// # Panics
/// With every divergence.
pub async fn vectors_hold_for_a_host_over_a_socket<R: Runtime>(bench: Bench<R>) {
    let (played, left) = play_all(&bench, Subject::Host).await;
    assert!(played >= 250, "{played}");
    left_for_a_reason(&left);
}

/// A vector that says what is not so does not pass: in its bytes, in what is reported, in why it ended, in what it leaves out.
///
/// # Panics
/// If it passes.
pub async fn a_vector_that_is_wrong_is_found_out<R: Runtime>(bench: Bench<R>) {
    let find = |subject, name: &str| {
        let mut all = cases(subject).filter(|(vector, case)| Peer::can_play(vector, case));
        all.find(|(_, case)| case.name == name).expect("a case of this name")
    };
    let alter = |case: &Case, change: &dyn Fn(&mut Vec<hostwire_vectors::Step>)| {
        let mut case = case.clone();
        if let Body::Exchange(steps) = &mut case.body {
            change(steps);
        }
        case
    };
    let (vector, case) = find(Subject::Client, "route.open answered by not JSON");
    let event = |steps: &mut Vec<hostwire_vectors::Step>| {
        for step in steps {
            if let Action::Event(report) = &mut step.action {
                report.arguments.insert("code".into(), "dropped".into());
            }
        }
    };
    let cause = |steps: &mut Vec<hostwire_vectors::Step>| {
        for step in steps {
            if let Action::Closed(cause) = &mut step.action {
                *cause = "eof".into();
            }
        }
    };
    let silent = |steps: &mut Vec<hostwire_vectors::Step>| {
        steps.retain(|step| !matches!(step.action, Action::Event(_)));
    };
    let differing = async |vector: &Vector, case: &Case| {
        let divergence = play(&bench, vector, case, PATIENCE).await.expect_err("it is wrong");
        divergence.differences.into_iter().map(|difference| difference.what).collect::<Vec<_>>()
    };
    assert_eq!(differing(&vector, &alter(&case, &event)).await, ["code"]);
    assert_eq!(differing(&vector, &alter(&case, &cause)).await, ["closed"]);
    assert_eq!(differing(&vector, &alter(&case, &silent)).await, ["event"]);
    let mute = |steps: &mut Vec<hostwire_vectors::Step>| {
        for step in steps {
            if let Action::Expect(_) = step.action {
                step.action = Action::Closed("setup".into());
            }
        }
    };
    let (vector, case) = find(Subject::Host, "an unknown transport gives TCP without a reason");
    assert_eq!(play(&bench, &vector, &case, PATIENCE).await, Ok(()));
    assert_eq!(differing(&vector, &alter(&case, &mute)).await, ["sent"]);
    let (vector, case) = cases(Subject::Client)
        .find(|(vector, case)| Peer::core_only(vector, case) == Some(CoreOnly::Cut))
        .expect("one for the core");
    assert_eq!(differing(&vector, &case).await, ["subject"]);
}
