//! Bodies that carry their charge, and the lease by which a big one is filled in place.

use crate::budget::Charge;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;

/// The bytes of a frame, with the share of the budget that they occupy.
///
/// The share is given back when the body is dropped, wherever that happens; [`Body::into_bytes`] keeps it alive with the
/// bytes. `Debug` shows the length only (Z1).
#[derive(Default)]
pub struct Body {
    repr: Repr,
    charge: Option<Charge>,
}

/// In two steps, since so it fits into the size of [`Bytes`]: bodies are moved more often than they are looked at.
enum Repr {
    Shared(Bytes),
    Other(Other),
}

enum Other {
    Owned(Vec<u8>),
    Lent(Owner),
}

type Owner = Arc<dyn AsRef<[u8]> + Send + Sync>;

impl Repr {
    const fn owned(bytes: Vec<u8>) -> Self {
        Self::Other(Other::Owned(bytes))
    }
}

impl Default for Repr {
    fn default() -> Self {
        Self::owned(Vec::new())
    }
}

impl Body {
    /// A body that holds `charge` until it is dropped.
    #[must_use]
    pub fn charged(bytes: Vec<u8>, charge: Option<Charge>) -> Self {
        Self { repr: Repr::owned(bytes), charge }
    }

    /// A body of constant bytes: no copy, no allocation.
    #[must_use]
    pub const fn from_static(bytes: &'static [u8]) -> Self {
        Self { repr: Repr::Shared(Bytes::from_static(bytes)), charge: None }
    }

    /// The bytes of something that is shared anyway: no copy, no allocation. `owner` has to show the same bytes every time.
    #[must_use]
    pub fn from_owner(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        Self { repr: Repr::Other(Other::Lent(owner)), charge: None }
    }

    /// The bytes.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.repr {
            Repr::Other(Other::Owned(bytes)) => bytes,
            Repr::Shared(bytes) => bytes,
            Repr::Other(Other::Lent(owner)) => (**owner).as_ref(),
        }
    }

    /// Length in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there is no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes as shared ones; the charge lives until the last clone is gone.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match (self.repr, self.charge) {
            (Repr::Other(Other::Owned(bytes)), None) => Bytes::from(bytes),
            (Repr::Shared(bytes), None) => bytes,
            (Repr::Other(Other::Lent(owner)), None) => Bytes::from_owner(Lent(owner)),
            (Repr::Other(Other::Owned(bytes)), Some(charge)) => {
                Bytes::from_owner(Charged { bytes, _charge: charge })
            }
            (Repr::Shared(bytes), Some(charge)) => Bytes::from_owner(Charged { bytes, _charge: charge }),
            (Repr::Other(Other::Lent(owner)), Some(charge)) => {
                Bytes::from_owner(Charged { bytes: Lent(owner), _charge: charge })
            }
        }
    }

    /// The bytes as a vector, without a copy where they are one. The charge is given back: from here on the memory is the caller's.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.repr {
            Repr::Other(Other::Owned(bytes)) => bytes,
            Repr::Shared(bytes) => bytes.into(),
            Repr::Other(Other::Lent(owner)) => (*owner).as_ref().to_vec(),
        }
    }

    /// Whether it was made by [`Body::from_owner`].
    #[must_use]
    pub const fn is_lent(&self) -> bool {
        matches!(self.repr, Repr::Other(Other::Lent(_)))
    }

    /// Takes a charge over, to be held until this body is dropped; one that it had before is given back.
    pub fn attach(&mut self, charge: Charge) {
        self.charge = Some(charge);
    }

    /// Takes its charge out: the share outlives the bytes, for what was made of them.
    pub(crate) fn take_charge(&mut self) -> Option<Charge> {
        self.charge.take()
    }

    /// Units of the budget that it holds.
    #[must_use]
    pub fn charge(&self) -> usize {
        self.charge.as_ref().map_or(0, Charge::amount)
    }
}

struct Charged<B> {
    bytes: B,
    _charge: Charge,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Charged<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

struct Lent(Owner);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self { repr: Repr::owned(bytes), charge: None }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self { repr: Repr::Shared(bytes), charge: None }
    }
}

impl From<&'static [u8]> for Body {
    fn from(bytes: &'static [u8]) -> Self {
        Self::from_static(bytes)
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::from_static(text.as_bytes())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::from(text.into_bytes())
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.len()) // Z1: never the content
    }
}

/// A big body's own buffer, moved out of the connection to be read into, and to be moved back.
///
/// Append at most [`BodyLease::room`] bytes to [`BodyLease::buffer`], straight from the socket, and give it to `return_body`.
/// While it is out the connection takes no other input.
#[must_use = "the connection reads nothing until its lease comes back"]
pub struct BodyLease {
    pub(crate) buffer: Vec<u8>,
    pub(crate) start: usize,
    pub(crate) room: usize,
    pub(crate) ticket: u64,
}

impl BodyLease {
    /// The buffer: filled so far, with at least [`BodyLease::room`] bytes of spare capacity. Only append.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// How many bytes may be appended. The buffer's spare capacity is exactly that.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.room
    }
}

impl fmt::Debug for BodyLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BodyLease({} bytes, room for {})", self.buffer.len(), self.room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Pool;
    use alloc::format;
    use alloc::vec;

    #[test]
    fn a_body_is_no_larger_than_shared_bytes_and_a_charge() {
        assert_eq!(size_of::<Body>(), size_of::<Bytes>() + size_of::<Charge>());
    }

    #[test]
    fn the_charge_lives_as_long_as_the_last_clone_of_the_bytes() {
        let pool = Pool::new(8);
        let body = Body::charged(vec![1, 2, 3], pool.try_charge(3));
        assert_eq!((body.charge(), pool.used()), (3, 3));
        let bytes = body.into_bytes();
        let clone = bytes.clone();
        drop(bytes);
        assert_eq!(pool.used(), 3);
        assert_eq!(&clone[..], &[1, 2, 3]);
        drop(clone);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_vector_taken_out_gives_its_charge_back() {
        let pool = Pool::new(8);
        let mut body = Body::from_static(b"abc");
        body.attach(pool.try_charge(8).unwrap());
        assert_eq!(pool.free(), 0);
        assert_eq!(body.into_vec(), b"abc");
        assert_eq!(pool.free(), 8);
    }

    #[test]
    fn a_lent_body_is_its_owners_bytes_and_lets_go_of_it() {
        let pool = Pool::new(8);
        let owner: Arc<Vec<u8>> = Arc::new(vec![4, 5]);
        let lend = || Body::from_owner(Arc::<Vec<u8>>::clone(&owner));
        let body = lend();
        assert_eq!((body.as_slice().as_ptr(), body.len()), (owner.as_ptr(), 2));
        assert!(body.is_lent() && !Body::from_static(b"ab").is_lent());
        assert_eq!(lend().into_vec(), [4, 5]);
        let mut charged = lend();
        charged.attach(pool.try_charge(2).unwrap());
        let (bytes, held) = (lend().into_bytes(), charged.into_bytes());
        assert_eq!((bytes.as_ptr(), held.as_ptr(), pool.used()), (owner.as_ptr(), owner.as_ptr(), 2));
        drop((body, bytes, held));
        assert_eq!((Arc::strong_count(&owner), pool.used()), (1, 0));
    }

    #[test]
    fn z1_debug_shows_no_content() {
        assert_eq!(format!("{:?}", Body::from_static(b"secret")), "Body(6 bytes)");
        let lease = BodyLease { buffer: vec![7; 3], start: 0, room: 5, ticket: 1 };
        assert_eq!(format!("{lease:?}"), "BodyLease(3 bytes, room for 5)");
    }

    #[test]
    fn a_body_is_its_bytes_whoever_owns_them() {
        let bodies = [Body::from_static(b"abc"), Body::from(vec![b'a', b'b', b'c'])];
        assert!(bodies.iter().all(|body| body.as_ref() == b"abc" && body.len() == 3 && !body.is_empty()));
        assert!(Body::default().is_empty());
    }
}
