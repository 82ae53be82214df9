//! The host's choice among a client's offers: one rule, one walk (N7).

use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::TCP_VERSION;
use super::offer::{OfferList, TransportName};
use super::response::FallbackReason;
use crate::json::RawJson;

/// One version of a transport that the host has installed beside `tcp`.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Its name.
    pub transport: TransportName,
    /// Its version.
    pub capability_version: NonZeroU32,
    /// Whether it can serve now.
    pub available: bool,
    /// Whether it can serve an offer with these parameters. One with others is not eligible (N14).
    pub eligible: fn(Option<&RawJson>) -> bool,
}

impl Installed {
    /// Our own candidate: `unix`, version 1, parameters absent or `{}` (N14).
    #[must_use]
    pub const fn unix(available: bool) -> Self {
        Self {
            transport: TransportName::UNIX,
            capability_version: NonZeroU32::MIN,
            available,
            eligible: |parameters| parameters.is_none_or(|parameters| parameters.compacted().text() == "{}"),
        }
    }
}

/// What a host serves: `tcp` in its one version, and what is installed beside it.
#[derive(Clone, Debug, Default)]
pub struct Served {
    installed: Vec<Installed>,
}

impl Served {
    /// `tcp` alone.
    #[must_use]
    pub const fn tcp_only() -> Self {
        Self { installed: Vec::new() }
    }

    /// `tcp`, and these beside it.
    ///
    /// # Errors
    ///
    /// [`InstalledError`].
    pub fn new(installed: Vec<Installed>) -> Result<Self, InstalledError> {
        let mut rest = installed.as_slice();
        while let Some((one, others)) = rest.split_first() {
            let same = |other: &Installed| {
                other.transport == one.transport && other.capability_version == one.capability_version
            };
            if one.transport.is_tcp() {
                return Err(InstalledError::Tcp);
            }
            if others.iter().any(same) {
                return Err(InstalledError::Repeated);
            }
            rest = others;
        }
        Ok(Self { installed })
    }
}

/// Why a host cannot serve what it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum InstalledError {
    /// `tcp` is served by every host, and is not installed beside itself.
    #[error("tcp cannot be installed as a candidate")]
    Tcp,
    /// Two have the same transport and version.
    #[error("a transport is installed twice in one version")]
    Repeated,
}

/// The host's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Selection {
    /// Go on over TCP.
    Tcp {
        /// Why not a candidate, if one was wanted first and could have been (N5).
        reason: Option<FallbackReason>,
    },
    /// Grant the offer at this place of the list.
    Candidate(usize),
    /// `tcp` was offered only in versions that the host lacks: close without a word.
    NoTcp,
}

/// Selects one of the offers, and invents nothing (N7).
#[must_use]
pub fn select(offers: &OfferList, served: &Served) -> Selection {
    // N7: without a common `tcp` there is nothing to fall back to, and no walk.
    if offers.find(&TransportName::TCP, TCP_VERSION).is_none() {
        return Selection::NoTcp;
    }
    let mut reason = None;
    for (place, offer) in offers.offers().iter().enumerate() {
        if offer.transport().is_tcp() {
            if offer.capability_version() == TCP_VERSION {
                break;
            }
            continue;
        }
        let versions = || served.installed.iter().filter(|one| one.transport == *offer.transport());
        match versions().find(|one| one.capability_version == offer.capability_version()) {
            // N14: not eligible, so no reason.
            Some(one) if !(one.eligible)(offer.parameters()) => {}
            Some(one) if one.available => return Selection::Candidate(place),
            // N7: `unavailable` outranks a version mismatch, whichever came first.
            Some(_) => reason = Some(FallbackReason::Unavailable),
            None if versions().next().is_some() => {
                reason = reason.or(Some(FallbackReason::CapabilityVersionMismatch));
            }
            // N7: an unknown transport is no reason.
            None => {}
        }
    }
    Selection::Tcp { reason }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::super::offer::Offer;
    use super::*;

    fn version(n: u32) -> NonZeroU32 {
        NonZeroU32::new(n).unwrap()
    }

    fn offer(name: &str, n: u32) -> Offer {
        Offer::new(TransportName::new(name).unwrap(), version(n), None).unwrap()
    }

    fn host(installed: &[(&str, u32, bool)]) -> Served {
        let installed = installed.iter().map(|&(name, n, available)| Installed {
            transport: TransportName::new(name).unwrap(),
            capability_version: version(n),
            available,
            eligible: |parameters| parameters.is_none(),
        });
        Served::new(installed.collect()).unwrap()
    }

    fn choose(offers: &[(&str, u32)], served: &Served) -> Selection {
        let offers = offers.iter().map(|&(name, n)| offer(name, n)).collect();
        select(&OfferList::new(offers).unwrap(), served)
    }

    const TCP: Selection = Selection::Tcp { reason: None };
    const UNAVAILABLE: Selection = Selection::Tcp { reason: Some(FallbackReason::Unavailable) };
    const MISMATCH: Selection = Selection::Tcp { reason: Some(FallbackReason::CapabilityVersionMismatch) };

    #[test]
    fn n7_the_first_offer_that_can_be_served_wins() {
        let served = host(&[("unix", 1, true), ("shm", 1, true), ("shm", 2, true)]);
        assert_eq!(choose(&[("tcp", 1)], &served), TCP);
        assert_eq!(choose(&[("unix", 1), ("tcp", 1)], &served), Selection::Candidate(0));
        assert_eq!(
            choose(&[("shm", 3), ("shm", 2), ("unix", 1), ("tcp", 1)], &served),
            Selection::Candidate(1)
        );
        // What stands behind a served `tcp` is wanted less than it.
        assert_eq!(choose(&[("tcp", 1), ("unix", 1)], &served), TCP);
        // Another version of `tcp` does not end the walk.
        assert_eq!(choose(&[("tcp", 2), ("unix", 1), ("tcp", 1)], &served), Selection::Candidate(1));
        assert_eq!(choose(&[("tcp", 2), ("tcp", 1)], &served), TCP);
    }

    #[test]
    fn n7_v54_reasons_are_given_for_what_is_installed_and_unavailable_outranks_a_mismatch() {
        let served = host(&[("unix", 1, false), ("shm", 2, true)]);
        assert_eq!(choose(&[("other", 1), ("tcp", 1)], &served), TCP);
        assert_eq!(choose(&[("unix", 1), ("tcp", 1)], &served), UNAVAILABLE);
        assert_eq!(choose(&[("shm", 1), ("tcp", 1)], &served), MISMATCH);
        assert_eq!(choose(&[("unix", 2), ("tcp", 1)], &served), MISMATCH);
        assert_eq!(choose(&[("shm", 1), ("unix", 1), ("tcp", 1)], &served), UNAVAILABLE);
        assert_eq!(choose(&[("unix", 1), ("shm", 1), ("tcp", 1)], &served), UNAVAILABLE);
        assert_eq!(choose(&[("unix", 1), ("shm", 1), ("other", 1), ("tcp", 1)], &served), UNAVAILABLE);
        // Reasons come from before the `tcp` that was chosen only.
        assert_eq!(choose(&[("tcp", 1), ("unix", 1), ("shm", 1)], &served), TCP);
        // A failed first choice does not keep a later one from being granted.
        assert_eq!(choose(&[("unix", 1), ("shm", 2), ("tcp", 1)], &served), Selection::Candidate(1));
    }

    #[test]
    fn n7_tcp_in_versions_that_the_host_lacks_ends_in_silence() {
        let served = host(&[("unix", 1, true)]);
        assert_eq!(choose(&[("tcp", 2)], &served), Selection::NoTcp);
        assert_eq!(choose(&[("unix", 1), ("tcp", 2), ("tcp", 3)], &served), Selection::NoTcp);
    }

    #[test]
    fn n14_unix_takes_absent_or_empty_parameters_and_others_are_not_eligible() {
        let served = |available| Served::new(vec![Installed::unix(available)]).unwrap();
        let choose = |parameters: Option<&str>, available| {
            let parameters = parameters.map(|text| RawJson::new(text).unwrap());
            let unix = Offer::new(TransportName::UNIX, version(1), parameters.as_ref()).unwrap();
            select(&OfferList::new(vec![unix, Offer::tcp()]).unwrap(), &served(available))
        };
        assert_eq!(choose(None, true), Selection::Candidate(0));
        assert_eq!(choose(Some("{ }"), true), Selection::Candidate(0));
        assert_eq!(choose(Some("{\"a\":1}"), true), TCP);
        assert_eq!(choose(Some("{\"a\":1}"), false), TCP);
        assert_eq!(choose(None, false), UNAVAILABLE);
        // As a peer may have sent it, spaces and all.
        assert!((Installed::unix(true).eligible)(Some(&RawJson::new("{\n}").unwrap())));
    }

    #[test]
    fn a_host_installs_each_transport_version_once_and_never_tcp() {
        let installed = |name: &str, n| Installed {
            transport: TransportName::new(name).unwrap(),
            capability_version: version(n),
            ..Installed::unix(true)
        };
        assert!(Served::new(vec![installed("a", 1), installed("a", 2), installed("b", 1)]).is_ok());
        assert_eq!(
            Served::new(vec![installed("a", 1), installed("tcp", 2)]).err(),
            Some(InstalledError::Tcp)
        );
        let twice = vec![installed("a", 1), installed("b", 1), installed("a", 1)];
        assert_eq!(Served::new(twice).err(), Some(InstalledError::Repeated));
        assert_eq!(choose(&[("unix", 1), ("tcp", 1)], &Served::tcp_only()), TCP);
    }
}
