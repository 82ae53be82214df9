//! The numbers that name things on the wire. Zero has a meaning of its own there, so none of these can be zero.

use core::fmt;
use core::num::{NonZeroU16, NonZeroU32, NonZeroU64};

/// A nonzero channel number, from one namespace for the whole host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(NonZeroU16);

/// An incarnation of a channel: nonzero, and only growing (R1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(NonZeroU32);

/// Names a request within one generation and one direction (Q1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Correlation(NonZeroU64);

macro_rules! nonzero {
    ($name:ident, $inner:ty, $raw:ty) => {
        impl $name {
            /// The number, if it is not zero.
            #[must_use]
            pub const fn new(raw: $raw) -> Option<Self> {
                match <$inner>::new(raw) {
                    Some(n) => Some(Self(n)),
                    None => None,
                }
            }

            /// The number as it stands on the wire.
            #[must_use]
            pub const fn value(self) -> $raw {
                self.0.get()
            }

            /// The next number, unless this is the last.
            #[must_use]
            pub const fn next(self) -> Option<Self> {
                match self.0.checked_add(1) {
                    Some(n) => Some(Self(n)),
                    None => None,
                }
            }

            /// The lowest number.
            pub const FIRST: Self = Self(<$inner>::MIN);
            /// The highest number.
            pub const LAST: Self = Self(<$inner>::MAX);
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}
nonzero!(Channel, NonZeroU16, u16);
nonzero!(Epoch, NonZeroU32, u32);
nonzero!(Correlation, NonZeroU64, u64);

/// A route: one incarnation of one channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteHandle {
    /// The channel number.
    pub channel: Channel,
    /// Its incarnation.
    pub epoch: Epoch,
}

impl RouteHandle {
    /// The handle (`channel`, `epoch`), if neither is zero.
    #[must_use]
    pub const fn new(channel: u16, epoch: u32) -> Option<Self> {
        match (Channel::new(channel), Epoch::new(epoch)) {
            (Some(channel), Some(epoch)) => Some(Self { channel, epoch }),
            (Some(_) | None, Some(_) | None) => None,
        }
    }
}

impl fmt::Debug for RouteHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.channel, self.epoch)
    }
}

/// What a frame is addressed to: channel, epoch and correlation together (protocol.md §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// 0/0/0: the connection.
    Connection,
    /// 0/0/n: a request or probe on the control channel.
    Control(Correlation),
    /// n/n/0: a route.
    Route(RouteHandle),
    /// n/n/n: a request on a route.
    Routed(RouteHandle, Correlation),
}

impl Identity {
    /// Channel, epoch and correlation as they stand on the wire.
    #[must_use]
    pub const fn raw(self) -> (u16, u32, u64) {
        match self {
            Self::Connection => (0, 0, 0),
            Self::Control(corr) => (0, 0, corr.value()),
            Self::Route(route) => (route.channel.value(), route.epoch.value(), 0),
            Self::Routed(route, corr) => (route.channel.value(), route.epoch.value(), corr.value()),
        }
    }

    /// The correlation, if it has one.
    #[must_use]
    pub const fn correlation(self) -> Option<Correlation> {
        match self {
            Self::Control(corr) | Self::Routed(_, corr) => Some(corr),
            Self::Connection | Self::Route(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_names_nothing_and_the_last_number_has_no_next() {
        assert_eq!(Channel::new(0), None);
        assert_eq!(RouteHandle::new(1, 0), None);
        assert_eq!(RouteHandle::new(0, 1), None);
        assert_eq!(Correlation::LAST.next(), None); // Q1
        assert_eq!(Epoch::LAST.value(), u32::MAX); // R3
        assert_eq!(Correlation::FIRST.next(), Correlation::new(2));
    }

    #[test]
    fn an_identity_gives_its_three_numbers_back() {
        let route = RouteHandle::new(7, 77).unwrap();
        assert_eq!(alloc::format!("{route:?}"), "7@77");
        let corr = Correlation::new(2).unwrap();
        assert_eq!(Identity::Connection.raw(), (0, 0, 0));
        assert_eq!(Identity::Control(corr).raw(), (0, 0, 2));
        assert_eq!(Identity::Route(route).raw(), (7, 77, 0));
        assert_eq!(Identity::Routed(route, corr).raw(), (7, 77, 2));
        assert_eq!(Identity::Routed(route, corr).correlation(), Some(corr));
        assert_eq!(Identity::Route(route).correlation(), None);
    }
}
