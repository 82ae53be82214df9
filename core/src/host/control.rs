//! Control requests on a selected transport (§8): bounds, the target's class, the permit, then semantics (C8).

use super::connection::Connection;
use super::end::End;
use super::event::Event;
use super::requests::{Entry, State};
use crate::body::Body;
use crate::control::{ControlRequest, HostCode, Resolution, RouteClass, RouteOpen, decode_request};
use crate::fault::PeerMisbehaved;
use crate::time::Instant;
use crate::wire::{Correlation, Identity};
use alloc::boxed::Box;

impl Connection {
    pub(super) fn control(
        &mut self,
        now: Instant,
        corr: Correlation,
        binary: bool,
        body: Body,
    ) -> Result<(), End> {
        let Ok(request) = decode_request(body.as_slice(), binary) else {
            self.refuse(now, Identity::Control(corr), HostCode::InvalidControlRequest); // C3
            return Ok(());
        };
        let class = RouteClass::General; // C12
        match request {
            ControlRequest::RouteOpen(open) => self.route_open(now, corr, open, body),
            ControlRequest::TransportNegotiate => {
                return Err(End::Misbehaved(PeerMisbehaved::SecondNegotiation));
            } // N9
            ControlRequest::CatalogList { module_id } => {
                let reply = self.shared.catalog.body(&self.shared.targets, module_id.as_deref());
                self.answer(now, corr, class, Ok(reply.into()));
            }
            ControlRequest::HostShutdown => {
                // H6: whoever is authenticated may; its state says that nothing is handed over.
                let (identity, waits) = (Identity::Control(corr), State::Running { streamed: false });
                match self.requests.admit(Entry::control(corr, waits, class)) {
                    Some(id) if !self.try_shutdown(now, id) => self.waiting.push_back(id), // H3
                    Some(_) => {}
                    None => self.refuse(now, identity, HostCode::ServerBusy),
                }
            }
            ControlRequest::Unknown => self.answer(now, corr, class, Err(HostCode::UnsupportedOperation)), // C4
        }
        Ok(())
    }

    fn route_open(&mut self, now: Instant, corr: Correlation, open: Box<RouteOpen>, mut body: Body) {
        let identity = Identity::Control(corr);
        if self.shared.is_draining() {
            return self.refuse(now, identity, HostCode::TargetUnavailable); // B6
        }
        // C8: the class by table, an unknown target's is general. Without a permit all that is said is that there is none.
        let class = self.shared.targets.class_of(open.target());
        match self.shared.targets.resolve(open.target()) {
            Resolution::Bind(component) => {
                let entry = Entry {
                    opening: Some(component),
                    charge: body.take_charge(), // what was decoded is no larger than what it was decoded from
                    ..Entry::control(corr, State::Queued, class)
                };
                match self.requests.admit(entry) {
                    Some(id) => self.events.push_back(Event::RouteOpen { id, open, component, class }),
                    None => self.refuse(now, identity, HostCode::ServerBusy),
                }
            }
            Resolution::TargetUnavailable => self.answer(now, corr, class, Err(HostCode::TargetUnavailable)),
            Resolution::UnknownModule => self.answer(now, corr, class, Err(HostCode::UnknownModule)),
        }
    }
}
