//! The component: echoes; streams for a body of 12 bytes; never answers one of a single byte.

use harness::body;
use hostwire::component::{Component, Handled, Manifest, Reply, RequestContext, Role, SendError};
use std::future::pending;
use std::sync::Arc;

pub const MODULE: &str = "echo";
/// The body that is never answered.
pub const HANG: &[u8] = b"h";

pub fn ask(items: u64, size: usize) -> Vec<u8> {
    [&items.to_le_bytes()[..], &(size as u32).to_le_bytes()].concat()
}

pub struct Echo;

impl Component for Echo {
    fn manifest(&self) -> Manifest {
        Manifest::new(MODULE, "1", Role::ToolProvider)
    }

    fn handle(self: Arc<Self>, mut cx: RequestContext) -> Handled {
        match cx.body().as_slice() {
            HANG => Handled::Future(Box::pin(pending())),
            &[a, b, c, d, e, f, g, h, i, j, k, l] => {
                let items = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
                let size = u32::from_le_bytes([i, j, k, l]) as usize;
                Handled::stream(stream(cx, items, size))
            }
            _ => Reply::binary(cx.take_body()).into(),
        }
    }
}

struct Stopped;

impl From<SendError> for Stopped {
    fn from(_: SendError) -> Self {
        Self
    }
}

impl From<Stopped> for hostwire::component::ErrorReply {
    fn from(_: Stopped) -> Self {
        Self::new("stopped", "")
    }
}

async fn stream(cx: RequestContext, items: u64, size: usize) -> Result<(), Stopped> {
    let filler = body(size);
    for _ in 0..items {
        cx.send(filler.to_vec()).await?;
    }
    Ok(())
}
