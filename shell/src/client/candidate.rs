//! A granted candidate on the client's side (N10, N11, N14): from the grant to the generation that goes on there.
//!
//! Part of the client's one task, before the generation is announced: so the handles know the surviving connection only, and whatever
//! ends that task ends both. Nothing is connected to that is not where N14 says it has to be.

use super::config::{CandidateFailure, ClientConfig};
use super::shared::Shared;
use crate::discovery::{Location, Refused, judge_door};
use crate::runtime::Runtime;
use crate::socket::{connect_unix, peer_is_same_user};
use hostwire_core::client::Connection;
use hostwire_core::json::RawJson;
use hostwire_core::negotiate::{Grant, Offer};
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Longer than any path that a socket can have.
const MAX_PATH: usize = 4_095;

/// The connection that granted a candidate, driven beside it. Dropping what drives it closes its socket, without a frame.
pub(super) struct Bootstrap<F> {
    driving: Option<Pin<Box<F>>>,
}

impl<F: Future<Output = ()>> Bootstrap<F> {
    pub(super) const fn new(driving: Pin<Box<F>>) -> Self {
        Self { driving: Some(driving) }
    }

    /// Drives it; whether it has ended just now.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let ended = self.driving.as_mut().is_some_and(|driving| driving.as_mut().poll(cx).is_ready());
        if ended {
            self.driving = None;
        }
        ended
    }

    /// Drives it for as long as `other` takes.
    pub(super) async fn during<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = pin!(other);
        poll_fn(|cx| {
            self.poll(cx);
            other.as_mut().poll(cx)
        })
        .await
    }
}

/// Drives the candidate to its end, and the bootstrap for as long as their fates are one (N11).
pub(super) async fn go_over(
    candidate: &Arc<Shared>,
    going: impl Future<Output = ()>,
    mut bootstrap: Bootstrap<impl Future<Output = ()>>,
) {
    let mut going = pin!(going);
    let mut told = false;
    poll_fn(|cx| {
        loop {
            // The candidate first: what it has reached, no end of the bootstrap takes back (N10).
            if going.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if candidate.standing().0 {
                bootstrap.driving = None; // N10
                return Poll::Pending;
            }
            bootstrap.poll(cx);
            if told || bootstrap.driving.is_some() {
                return Poll::Pending;
            }
            told = true;
            candidate.command(Connection::bootstrap_ended); // N11
        }
    })
    .await;
}

/// N14: what the descriptor says, if this is our own candidate.
fn path_of(grant: &Grant) -> Option<PathBuf> {
    let unix = Offer::unix();
    let ours =
        grant.transport() == unix.transport() && grant.capability_version() == unix.capability_version();
    ours.then(|| read_descriptor(grant.descriptor())).flatten()
}

fn read_descriptor(descriptor: &RawJson) -> Option<PathBuf> {
    // N4: a closed set.
    let [path] = descriptor.value().object().ok()?.pick_closed(["path"]).ok()?;
    let path = path.required().ok()?.string(MAX_PATH).ok()?;
    Some(Path::new(path.as_ref()).to_owned())
}

/// Connects to what was granted.
pub(super) async fn reach<R: Runtime>(
    runtime: &R,
    config: &ClientConfig,
    grant: &Grant,
) -> Result<R::Io, CandidateFailure> {
    let path = path_of(grant).ok_or(CandidateFailure::Unsupported)?;
    let location =
        Location::resolve(&config.environment, &config.place).map_err(|_| CandidateFailure::Outside)?;
    let judging = runtime.blocking(move || judge_door(&location, &path).map(|()| path));
    let path = judging.await.map_err(|_| CandidateFailure::Lost)?.map_err(|refused| match refused {
        Refused::Outside => CandidateFailure::Outside,
        Refused::Missing => CandidateFailure::Missing,
        Refused::Insecure => CandidateFailure::Insecure,
    })?;
    let io = connect_unix(runtime, &path).map_err(CandidateFailure::Dial)?;
    // N14: whoever listens there runs under our own user ID.
    if peer_is_same_user(&io).map_err(CandidateFailure::Dial)? {
        Ok(io)
    } else {
        Err(CandidateFailure::ForeignPeer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostwire_core::negotiate::{ActivationToken, TransportName};
    use std::num::NonZeroU32;

    fn granted(offer: &Offer, descriptor: &str) -> Option<PathBuf> {
        let descriptor = RawJson::new(descriptor).unwrap();
        path_of(&Grant::new(offer, ActivationToken::new([1; 16]), &descriptor).unwrap())
    }

    #[test]
    fn n14_only_a_descriptor_of_our_own_candidate_is_read() {
        let good = r#"{"path":"/run/a\u0062"}"#;
        assert_eq!(granted(&Offer::unix(), good).unwrap(), Path::new("/run/ab"));
        for bad in ["{}", r#"{"path":1}"#, r#"{"path":null}"#, r#"{"path":"/x","port":1}"#] {
            assert_eq!(granted(&Offer::unix(), bad), None, "{bad}");
        }
        let second = Offer::new(TransportName::UNIX, NonZeroU32::new(2).unwrap(), None).unwrap();
        assert_eq!(granted(&second, good), None);
        let other = Offer::new(TransportName::new("pipe").unwrap(), NonZeroU32::MIN, None).unwrap();
        assert_eq!(granted(&other, good), None);
    }
}
