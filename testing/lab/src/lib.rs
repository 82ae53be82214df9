//! Components to test hosts and clients against.
//!
//! ```
//! use hostwire::component::Component;
//! use hostwire_lab::{Lab, LabReserved};
//! use std::sync::Arc;
//!
//! // What `Host::start` is given.
//! let components: Vec<Arc<dyn Component>> = vec![Arc::new(Lab::new()), Arc::new(LabReserved::default())];
//! assert_eq!(components[0].manifest().module_id, "lab");
//! ```
//!
//! [`Lab`] is a tool provider with the module ID `lab`; [`LabReserved`] does the same as a management surface, `lab-reserved`, in the
//! reserved class. What they answer is a small language, one JSON object a request:
//!
//! | body | answer |
//! | --- | --- |
//! | `{"do":"echo","value":V}` | `{"echo":V}` |
//! | `{"do":"sleep","ms":N}` | after N ms, `{"slept":N}` |
//! | `{"do":"stream","items":N,"size":K,"every_ms":M,"binary":B}` | N items of K bytes, M ms apart, then the end; the last two members are optional |
//! | `{"do":"stream_fail","items":N,"code":C}` | N items of 8 bytes, then `Error{C}` |
//! | `{"do":"fail","code":C,"message":M,"retry_after_ms":R}` | that `Error`; the last two members are optional |
//! | `{"do":"big","size":N}` | a binary answer of N zero bytes |
//! | `{"do":"panic"}` | panics |
//! | `{"do":"hang"}` | never answers; ends when it is cancelled |
//! | `{"do":"slow_stop","ms":N}` | never answers; when it is cancelled, needs N ms to stop |
//! | `{"do":"item_then_response"}` | sends an item, then tries to answer with a response |
//! | `{"do":"stats"}` | what the component has counted since its start |
//!
//! A body that is binary, no JSON, or no object with `do` comes back unchanged, with the same binary bit. An unknown `do`, or one without
//! what it needs, is answered `invalid_request`. A stream's item is its index in 8 little-endian bytes, cut to K, then filler bytes of the value
//! index mod 256.
//!
//! A bind obeys the session: `reject:CODE`, `reject` (with an empty code), `slow:MS`, `panic`, `hang`; anything else is accepted.
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects"))]

mod command;
mod counters;

use command::Command;
use counters::{Counters, Running};
use hostwire::component::{
    BindContext, BoxFuture, Component, Declaration, ErrorReply, Handled, Manifest, Reply, RequestContext,
    Role, RouteInfo,
};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

/// The module ID of [`Lab`].
pub const LAB: &str = "lab";
/// The module ID of [`LabReserved`].
pub const LAB_RESERVED: &str = "lab-reserved";

/// The component `lab`: a tool provider in the general class that declares nothing.
#[derive(Debug, Default)]
pub struct Lab {
    counters: Arc<Counters>,
}

impl Lab {
    /// One that has counted nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Component for Lab {
    fn manifest(&self) -> Manifest {
        Manifest::new(LAB, env!("CARGO_PKG_VERSION"), Role::ToolProvider)
    }

    fn bind(&self, cx: BindContext) -> BoxFuture<'_, Result<(), ErrorReply>> {
        Box::pin(bind(&self.counters, cx))
    }

    fn handle(self: Arc<Self>, cx: RequestContext) -> Handled {
        handle(&self.counters, cx)
    }

    fn route_gone(&self, _: Arc<RouteInfo>) -> BoxFuture<'_, ()> {
        self.counters.route_gone();
        Box::pin(std::future::ready(()))
    }
}

/// The component `lab-reserved`: the same as a management surface in the reserved class.
#[derive(Debug)]
pub struct LabReserved {
    pending: usize,
    tasks: usize,
    counters: Arc<Counters>,
}

impl LabReserved {
    /// One that reserves `pending` requests and `tasks` handler tasks (B7).
    #[must_use]
    pub fn new(pending: usize, tasks: usize) -> Self {
        Self { pending, tasks, counters: Arc::default() }
    }
}

impl Default for LabReserved {
    /// 4 pending requests and 2 tasks.
    fn default() -> Self {
        Self::new(4, 2)
    }
}

impl Component for LabReserved {
    fn manifest(&self) -> Manifest {
        let declaration = Declaration {
            reserved_pending: self.pending,
            reserved_tasks: self.tasks,
            ..Declaration::default()
        };
        Manifest::new(LAB_RESERVED, env!("CARGO_PKG_VERSION"), Role::ManagementSurface)
            .reserved()
            .declare(declaration)
    }

    fn bind(&self, cx: BindContext) -> BoxFuture<'_, Result<(), ErrorReply>> {
        Box::pin(bind(&self.counters, cx))
    }

    fn handle(self: Arc<Self>, cx: RequestContext) -> Handled {
        handle(&self.counters, cx)
    }

    fn route_gone(&self, _: Arc<RouteInfo>) -> BoxFuture<'_, ()> {
        self.counters.route_gone();
        Box::pin(std::future::ready(()))
    }
}

async fn bind(counters: &Counters, cx: BindContext) -> Result<(), ErrorReply> {
    let session = cx.open().identity().session();
    let (order, argument) = session.split_once(':').unwrap_or((session, ""));
    match (order, argument.parse::<u64>()) {
        ("reject", _) => {
            counters.rejected();
            return Err(ErrorReply::new(argument, "rejected, as the session asks"));
        }
        ("slow", Ok(ms)) => cx.timer().sleep(Duration::from_millis(ms)).await,
        ("panic", _) => panic!("a bind that was asked to panic"),
        ("hang", _) => pending().await,
        (_, Ok(_) | Err(_)) => {}
    }
    counters.bound();
    Ok(())
}

fn handle(counters: &Arc<Counters>, mut cx: RequestContext) -> Handled {
    let command = if cx.binary() { Ok(Command::Same) } else { Command::read(cx.body().as_slice()) };
    if matches!(command, Ok(Command::Stats)) {
        return Reply::text(counters.report()).into(); // it does not count itself
    }
    let running = Running::start(counters);
    match command {
        Err(problem) => running.end(ErrorReply::new("invalid_request", problem.to_string()).into()),
        Ok(Command::Same) => {
            running.end(Reply::Response { binary: cx.binary(), body: cx.take_body() }.into())
        }
        Ok(Command::Echo { answer }) => running.end(Reply::text(answer).into()),
        Ok(Command::Fail { error }) => running.end(error.into()),
        Ok(Command::Big { size }) => running.end(Reply::binary(vec![0; size]).into()),
        Ok(Command::Panic) => panic!("a handler that was asked to panic"),
        Ok(Command::Stats) => running.end(Reply::text(counters.report()).into()),
        Ok(Command::Sleep { ms }) => Handled::Future(Box::pin(async move {
            cx.timer().sleep(Duration::from_millis(ms)).await;
            running.end(Reply::text(format!("{{\"slept\":{ms}}}").into_bytes()))
        })),
        Ok(Command::Hang) => Handled::Future(Box::pin(async move {
            let _running = running;
            pending().await
        })),
        Ok(Command::SlowStop { ms }) => {
            let told = cx.cancellation(); // before the first poll, which a cancel may precede
            Handled::Future(Box::pin(async move {
                let _running = running; // it never ends of itself: a stop of any kind counts as cancelled
                told.await;
                cx.timer().sleep(Duration::from_millis(ms)).await;
                ErrorReply::new("stopped", "stopped, slowly").into()
            }))
        }
        Ok(Command::ItemThenResponse) => Handled::Future(Box::pin(async move {
            let sent = cx.send_as(false, item(0, 8)).await;
            running.end(match sent {
                Ok(()) => Reply::text(b"{}".as_slice()),
                Err(error) => ErrorReply::new("not_sent", error.to_string()).into(),
            })
        })),
        Ok(Command::Stream { items, size, every_ms, binary, code }) => {
            Handled::Stream(Box::pin(async move {
                for index in 0..items {
                    if index > 0 && every_ms > 0 {
                        cx.timer().sleep(Duration::from_millis(every_ms)).await;
                    }
                    if let Err(error) = cx.send_as(binary, item(index, size)).await {
                        drop(running);
                        return Err(ErrorReply::new("not_sent", error.to_string()));
                    }
                }
                running.end(match code {
                    Some(code) => Err(ErrorReply::new(code, "failed, as the request asks")),
                    None => Ok(()),
                })
            }))
        }
    }
}

/// The item `index` of `size` bytes.
fn item(index: u64, size: usize) -> Vec<u8> {
    let number = index.to_le_bytes();
    let mut bytes = vec![number[0]; size];
    bytes.iter_mut().zip(number).for_each(|(byte, digit)| *byte = digit);
    bytes
}

#[cfg(test)]
mod tests;
