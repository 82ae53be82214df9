//! One route, from its claim to its release.
//!
//! Owns the order of a route's life: claim, `bind`, work, `route_gone`, release. Invariant: for every `bind` that was called,
//! `route_gone` is called exactly once, after the bind and the route's last handler have ended (R2, R3). Runs in tasks of its own, so
//! that routes settle side by side.

use super::bell::Bell;
use super::conn::Conn;
use super::hub::{Hold, Hub};
use super::report::{Callback, Cause};
use crate::component::{BindContext, Component, Contained, ErrorReply, Panicked, RouteInfo};
use crate::runtime::Runtime;
use hostwire_core::control::{HostCode, RouteOpen};
use hostwire_core::host::{RequestId, RouteGrant, Step};
use hostwire_core::wire::RouteHandle;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

/// A claimed route.
pub(super) struct Route {
    pub(super) info: Arc<RouteInfo>,
    pub(super) module_id: Arc<str>,
    pub(super) component: Arc<dyn Component>,
    running: AtomicUsize,
    quiet: Bell,
}

impl Route {
    pub(super) fn handle(&self) -> RouteHandle {
        self.info.handle()
    }

    /// A handler's task begins.
    pub(super) fn begin(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
    }

    /// A handler's task has ended, and its permit is free.
    pub(super) fn end(&self) {
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.quiet.ring();
        }
    }
}

/// A `route.open` that holds its pending permit: claims a channel and starts the bind (R1), or refuses.
pub(super) fn open<R: Runtime>(conn: &Arc<Conn<R>>, id: RequestId, open: RouteOpen, component: usize) {
    let hub = conn.hub();
    let Some(member) = hub.member(component) else {
        return conn.refuse_route(id, HostCode::TargetUnavailable);
    };
    let claimed = hub.registry().claim(conn.owner());
    let Ok(handle) = claimed else {
        return conn.refuse_route(id, HostCode::TargetUnavailable); // R3
    };
    let info = Arc::new(RouteInfo { handle, open, timer: hub.timer.clone() });
    let route = Arc::new(Route {
        info,
        module_id: member.module_id,
        component: member.component,
        running: AtomicUsize::new(0),
        quiet: Bell::default(),
    });
    hub.add_route(&route);
    hub.begin_work();
    hub.runtime.spawn(bind(hub.hold(), Arc::clone(conn), id, route));
}

/// R1, R2: the bind and all that may follow.
async fn bind<R: Runtime>(hold: Hold<R>, conn: Arc<Conn<R>>, id: RequestId, route: Arc<Route>) {
    let hub = Arc::clone(hold.hub());
    let (component, cx) = (Arc::clone(&route.component), BindContext { route: Arc::clone(&route.info) });
    let mut bound = Contained::new(Box::pin(async move { component.bind(cx).await }));
    let mut answered = false;
    let first = hub.within(hub.timeouts.callback, Box::pin(forced_or_ended(&hub, &mut bound))).await;
    let ended = match first {
        Some(Some(ended)) => ended,
        Some(None) | None => {
            // R2: the requester is told at once; the channel stays claimed until the bind has really ended.
            hub.fail(&route.module_id, Callback::Bind, Cause::Overran);
            let _ = hub.registry().close(route.handle());
            conn.refuse_route(id, HostCode::ModuleTimeout);
            hub.end_work();
            answered = true;
            match forced_or_ended(&hub, &mut bound).await {
                Some(ended) => ended,
                None => bound.stop().map(|()| Ok(())),
            }
        }
    };
    let step = match &ended {
        Ok(Ok(())) => hub.registry().bind_accepted(route.handle()),
        Ok(Err(_)) | Err(_) => hub.registry().bind_rejected(route.handle()),
    };
    match step {
        Step::Publish(grant) => publish(&hub, &conn, id, &route, grant).await,
        Step::RouteGone => {
            settle(&hub, &route, Seen::No).await;
            if !answered {
                match ended {
                    Ok(Err(error)) => conn.reject_route(id, &error), // R2: the error is sent last
                    // Close won over the bind (R2); a request that is gone needs no answer.
                    Ok(Ok(())) => conn.refuse_route(id, HostCode::TargetUnavailable),
                    Err(_) => conn.refuse_route(id, HostCode::InternalError),
                }
            }
        }
        Step::Released | Step::Busy | Step::Nothing => {}
    }
    if !answered {
        hub.end_work();
    }
}

/// Waits for a bind's end, past its deadline too, but not beyond the drain of a host that ends: `None` then.
async fn forced_or_ended<R: Runtime>(
    hub: &Hub<R>,
    bound: &mut Contained<Result<(), ErrorReply>>,
) -> Option<Result<Result<(), ErrorReply>, Panicked>> {
    let mut forced = hub.bell.until(|| hub.is_forced().then_some(()));
    poll_fn(|cx| {
        if let Poll::Ready(ended) = Pin::new(&mut *bound).poll(cx) {
            return Poll::Ready(Some(ended));
        }
        Pin::new(&mut forced).poll(cx).map(|()| None)
    })
    .await
}

async fn publish<R: Runtime>(
    hub: &Arc<Hub<R>>,
    conn: &Arc<Conn<R>>,
    id: RequestId,
    route: &Arc<Route>,
    grant: RouteGrant,
) {
    // The connection may have gone while the bind was out; then close wins.
    if !conn.accept_route(id, route, grant) {
        let step = hub.registry().close(route.handle());
        if matches!(step, Step::RouteGone) {
            settle(hub, route, Seen::No).await;
        }
    }
}

/// A live route has ended on its connection (R6, K2): its handlers have been told.
pub(super) fn closed<R: Runtime>(hub: &Arc<Hub<R>>, handle: RouteHandle) {
    let step = hub.registry().close(handle);
    if !matches!(step, Step::RouteGone) {
        return;
    }
    let Some(route) = hub.route(handle) else { return };
    let hold = hub.hold();
    hub.runtime.spawn(async move { settle(hold.hub(), &route, Seen::Yes).await });
}

/// Whether a client has ever had the route.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Yes,
    No,
}

/// Work first, then `route_gone` once, then the channel (R3).
async fn settle<R: Runtime>(hub: &Arc<Hub<R>>, route: &Arc<Route>, seen: Seen) {
    let quiet = || (route.running.load(Ordering::Acquire) == 0).then_some(());
    // §15: the grace, after which a handler's future is dropped, then the same again for it to come back.
    if hub.within(hub.timeouts.route_close * 2, route.quiet.until(quiet)).await.is_none() {
        hub.fail(&route.module_id, Callback::Handle, Cause::Overran);
        route.quiet.until(quiet).await; // R3, H4: whatever it takes
    }
    if seen == Seen::Yes {
        // §17: at the host's end `Goodbye` leaves before any `route_gone` is called.
        hub.bell.until(|| (!hub.is_draining() || hub.no_conns() || hub.is_forced()).then_some(())).await;
    }
    let (component, info) = (Arc::clone(&route.component), Arc::clone(&route.info));
    let gone = hub.call(Box::pin(async move { component.route_gone(info).await })).await;
    if let Err(cause) = gone {
        hub.fail(&route.module_id, Callback::RouteGone, cause); // H5
    }
    let step = hub.registry().gone(route.handle());
    debug_assert!(matches!(step, Step::Released), "work ends before route_gone");
    hub.remove_route(route.handle());
}
