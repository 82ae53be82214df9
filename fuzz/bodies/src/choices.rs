//! What is drawn from an input: small numbers, sizes and moments.

use arbitrary::Unstructured;
use std::time::Duration;

/// An input as a sequence of choices; when it is used up, each choice is the first.
pub(crate) struct Choices<'d>(Unstructured<'d>);

impl<'d> Choices<'d> {
    pub(crate) fn new(data: &'d [u8]) -> Self {
        Self(Unstructured::new(data))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.int_in_range(0..=bound - 1).unwrap_or(0)
    }

    /// True once in `of` times, and never when the input is used up.
    pub(crate) fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == of - 1
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { from.get(self.below(from.len())).cloned() }
    }

    /// Up to `most` bytes as they stand in the input.
    pub(crate) fn bytes(&mut self, most: usize) -> Vec<u8> {
        let count = self.below(most + 1).min(self.0.len());
        self.0.bytes(count).unwrap_or_default().to_vec()
    }

    /// A size of pieces: around the header's, or all.
    pub(crate) fn size(&mut self) -> usize {
        self.pick(&[usize::MAX, 1, 2, 3, 20, 21, 22, 100, 5_000]).unwrap_or(usize::MAX)
    }

    pub(crate) fn duration(&mut self) -> Duration {
        self.pick(&[
            Duration::ZERO,
            Duration::from_micros(1),
            Duration::from_micros(700),
            Duration::from_millis(30),
            Duration::from_secs(3),
            Duration::from_secs(31),
        ])
        .unwrap_or_default()
    }
}
