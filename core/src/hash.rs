//! A fixed hasher for numbers that we or the peer count upwards: the same inputs give the same table (CC10).

use core::hash::{BuildHasherDefault, Hasher};

/// Builds [`CountHasher`]s.
pub(crate) type FixedState = BuildHasherDefault<CountHasher>;

/// Spreads a small integer over all bits by one multiplication. Tables that it serves are bounded by `Limits`, so that chosen keys
/// cost a longer probe and nothing worse.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CountHasher(u64);

impl Hasher for CountHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        let mixed = (self.0.rotate_left(23) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::BuildHasher;

    #[test]
    fn cc10_the_same_key_has_the_same_hash_in_every_run() {
        let state = FixedState::default();
        assert_eq!(state.hash_one(1_u64), 0x9E37_79B9_7F4A_7C15_u64 ^ 0x9E37_79B9);
        assert_ne!(state.hash_one(1_u64), state.hash_one(2_u64));
        assert_ne!(state.hash_one((1_u16, 2_u32)), state.hash_one((2_u16, 1_u32)));
        assert_eq!([state.hash_one(7_u16), state.hash_one(7_u32)], [state.hash_one(7_u64); 2]);
        let mix = |before: u64, n: u64| {
            let mixed = (before.rotate_left(23) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            mixed ^ (mixed >> 32)
        };
        assert_eq!(state.hash_one((u64::MAX, 5_u64)), mix(mix(0, u64::MAX), 5));
        let mut bytes = CountHasher::default();
        bytes.write(&[1]);
        let mut number = CountHasher::default();
        number.write_u64(1);
        assert_eq!(bytes.finish(), number.finish());
    }
}
