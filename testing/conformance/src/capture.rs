//! A `tracing` subscriber that keeps everything as text, and a runtime on which it is the one.

use hostwire::Runtime;
use hostwire::core::time::Instant;
use hostwire::runtime::BlockingLost;
use std::fmt::{self, Write};
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Subscriber, dispatcher};

/// A span as it was seen.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its name.
    pub name: &'static str,
    /// The place of its parent among the spans.
    pub parent: Option<usize>,
    /// Its fields, in the order in which they came: ` name=value` each.
    pub fields: String,
    /// Handles that are left of it.
    pub handles: usize,
}

impl Seen {
    /// The first word of a field's value, the last one recorded.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.split(' ').filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        values.next_back()
    }
}

#[derive(Debug, Default)]
struct State {
    spans: Vec<Seen>,
    events: Vec<String>,
    /// Spans that are entered, the innermost last.
    entered: Vec<(std::thread::ThreadId, usize)>,
}

impl State {
    /// The innermost span on this thread.
    fn inside(&self) -> Option<usize> {
        let thread = std::thread::current().id();
        self.entered.iter().rev().find(|(other, _)| *other == thread).map(|(_, place)| *place)
    }
}

/// Everything that was said.
#[derive(Clone, Debug, Default)]
pub struct Capture(Arc<Mutex<State>>);

struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.0, " {}={value}", field.name());
    }
}

fn place(id: &Id) -> usize {
    usize::try_from(id.into_u64() - 1).unwrap_or_default()
}

impl Capture {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All spans so far.
    #[must_use]
    pub fn spans(&self) -> Vec<Seen> {
        self.state().spans.clone()
    }

    /// All events so far, a line each.
    #[must_use]
    pub fn events(&self) -> Vec<String> {
        self.state().events.clone()
    }

    /// How many events say this.
    #[must_use]
    pub fn count(&self, what: &str) -> usize {
        self.state().events.iter().filter(|event| event.contains(what)).count()
    }

    /// All of it as one text.
    #[must_use]
    pub fn text(&self) -> String {
        let state = self.state();
        let spans = state.spans.iter().map(|span| format!("{}{}\n", span.name, span.fields));
        spans.chain(state.events.iter().map(|event| format!("{event}\n"))).collect()
    }

    /// Spans that have not ended.
    #[must_use]
    pub fn open(&self) -> usize {
        self.state().spans.iter().filter(|span| span.handles > 0).count()
    }
}

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("hostwire")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = String::new();
        attributes.record(&mut Text(&mut fields));
        let mut state = self.state();
        let parent = match attributes.parent() {
            Some(parent) => Some(place(parent)),
            None if attributes.is_contextual() => state.inside(),
            None => None,
        };
        state.spans.push(Seen { name: attributes.metadata().name(), parent, fields, handles: 1 });
        Id::from_u64(state.spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        if let Some(seen) = self.state().spans.get_mut(place(span)) {
            values.record(&mut Text(&mut seen.fields));
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = event.metadata().level().to_string();
        event.record(&mut Text(&mut text));
        let mut state = self.state();
        if let Some(inside) = state.inside() {
            let _ = write!(text, " in {}", state.spans[inside].name);
        }
        state.events.push(text);
    }

    fn enter(&self, span: &Id) {
        self.state().entered.push((std::thread::current().id(), place(span)));
    }

    fn exit(&self, span: &Id) {
        let mut state = self.state();
        let gone = (std::thread::current().id(), place(span));
        if let Some(at) = state.entered.iter().rposition(|entered| *entered == gone) {
            state.entered.remove(at);
        }
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(seen) = self.state().spans.get_mut(place(id)) {
            seen.handles += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut state = self.state();
        let Some(seen) = state.spans.get_mut(place(&id)) else { return false };
        seen.handles = seen.handles.saturating_sub(1);
        seen.handles == 0
    }
}

/// A runtime whose tasks all speak to one subscriber, whatever the rest of the process does.
#[derive(Clone, Debug)]
pub struct Traced<R> {
    inner: R,
    dispatch: Dispatch,
}

impl<R: Runtime> Traced<R> {
    /// With this subscriber.
    #[must_use]
    pub fn new(inner: R, capture: Capture) -> Self {
        Self { inner, dispatch: Dispatch::new(capture) }
    }

    /// Runs a future of the test's own so that it speaks to the subscriber as well.
    pub async fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|cx| dispatcher::with_default(&self.dispatch, || future.as_mut().poll(cx))).await
    }
}

impl<R: Runtime> Runtime for Traced<R> {
    type Io = R::Io;
    type Sleep = R::Sleep;

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn sleep_until(&self, at: Instant) -> R::Sleep {
        self.inner.sleep_until(at)
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) {
        let own = self.clone();
        self.inner.spawn(async move { own.run(task).await });
    }

    fn blocking<T, F>(&self, work: F) -> impl Future<Output = Result<T, BlockingLost>> + Send + 'static
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let dispatch = self.dispatch.clone();
        self.inner.blocking(move || dispatcher::with_default(&dispatch, work))
    }

    fn give_way(&self, cx: &mut Context<'_>) {
        self.inner.give_way(cx);
    }

    fn register(&self, fd: OwnedFd) -> io::Result<Self::Io> {
        self.inner.register(fd)
    }
}
