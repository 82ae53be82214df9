//! Control requests on a selected transport (§8): bounds, the target's class, the permit, then semantics (C8).

use super::connection::Connection;
use super::end::End;
use super::event::Notice;
use super::requests::{Held, State};
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
        let general = |conn: &Self| conn.shared.admission.pending(RouteClass::General); // C12
        match request {
            ControlRequest::RouteOpen(open) => self.route_open(now, corr, open, body),
            ControlRequest::TransportNegotiate => {
                return Err(End::Misbehaved(PeerMisbehaved::SecondNegotiation));
            } // N9
            ControlRequest::CatalogList { module_id } => match general(self) {
                Some(permit) => {
                    let reply = self.shared.catalog.body(&self.shared.targets, module_id.as_deref());
                    self.answer(now, corr, permit, Ok(reply.into()));
                }
                None => self.refuse(now, Identity::Control(corr), HostCode::ServerBusy),
            },
            ControlRequest::HostShutdown => match general(self) {
                Some(permit) => {
                    // H6: whoever is authenticated may; its state says that nothing is handed over.
                    let waits = State::Running { streamed: false };
                    let id = self.admit(corr, Identity::Control(corr), waits, Held::Nothing, permit);
                    if !self.try_shutdown(now, id) {
                        self.waiting.push_back(id); // H3
                    }
                }
                None => self.refuse(now, Identity::Control(corr), HostCode::ServerBusy),
            },
            ControlRequest::Unknown => match general(self) {
                Some(permit) => self.answer(now, corr, permit, Err(HostCode::UnsupportedOperation)), // C4
                None => self.refuse(now, Identity::Control(corr), HostCode::ServerBusy),
            },
        }
        Ok(())
    }

    fn route_open(&mut self, now: Instant, corr: Correlation, open: Box<RouteOpen>, mut body: Body) {
        let identity = Identity::Control(corr);
        if self.shared.is_draining() {
            return self.refuse(now, identity, HostCode::TargetUnavailable); // B6
        }
        // C8: the class by table, an unknown target's is general; then the permit; only then what the target is.
        let class = self.shared.targets.class_of(open.target());
        let Some(permit) = self.shared.admission.pending(class) else {
            return self.refuse(now, identity, HostCode::ServerBusy);
        };
        match self.shared.targets.resolve(open.target()) {
            Resolution::Bind(component) => {
                let id =
                    self.admit(corr, identity, State::Queued, Held::Open { open, component, class }, permit);
                if let Some(entry) = self.requests.get_mut(id) {
                    entry.charge = body.take_charge(); // what was decoded is no larger than what it was decoded from
                }
                self.events.push_back(Notice::Take(id));
            }
            Resolution::TargetUnavailable => self.answer(now, corr, permit, Err(HostCode::TargetUnavailable)),
            Resolution::UnknownModule => self.answer(now, corr, permit, Err(HostCode::UnknownModule)),
        }
    }
}
