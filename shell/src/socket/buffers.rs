//! The per-thread buffers: a thousand idle connections own none.
//!
//! A buffer is taken out while it is used and put back after, so that code which drives another connection in between (a handler
//! on the same thread) gets one of its own instead of a panic.

use super::READ_BUFFER;
use crate::turn::WRITE_MAX;
use std::cell::Cell;

thread_local! {
    static READ: Cell<Option<Vec<u8>>> = const { Cell::new(None) };
    static GATHER: Cell<Option<Vec<u8>>> = const { Cell::new(None) };
}

/// Lends the thread's read buffer of [`READ_BUFFER`] bytes; its content is whatever was read last.
pub fn with_read_buffer<R>(work: impl FnOnce(&mut [u8]) -> R) -> R {
    // A thread that is ending has no buffer any more, and gets a fresh one.
    let mut buffer = READ.try_with(Cell::take).ok().flatten().unwrap_or_else(|| vec![0; READ_BUFFER]);
    let result = work(&mut buffer);
    let _ = READ.try_with(|slot| slot.set(Some(buffer)));
    result
}

/// Lends the thread's empty gather buffer.
pub(super) fn with_gather_buffer<R>(work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut buffer = GATHER.try_with(Cell::take).ok().flatten().unwrap_or_default();
    buffer.clear();
    let result = work(&mut buffer);
    if buffer.capacity() <= WRITE_MAX {
        let _ = GATHER.try_with(|slot| slot.set(Some(buffer)));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_user_gets_a_buffer_of_its_own() {
        with_read_buffer(|outer| {
            outer[0] = 7;
            with_read_buffer(|inner| {
                assert_eq!(inner.len(), READ_BUFFER);
                inner[0] = 9;
            });
            assert_eq!(outer[0], 7);
        });
    }

    #[test]
    fn the_buffer_stays_with_its_thread() {
        let first = with_read_buffer(|buffer| buffer.as_ptr() as usize);
        let second = with_read_buffer(|buffer| buffer.as_ptr() as usize);
        assert_eq!(first, second);
    }

    #[test]
    fn the_gather_buffer_comes_empty() {
        with_gather_buffer(|buffer| buffer.extend_from_slice(b"left"));
        with_gather_buffer(|buffer| assert!(buffer.is_empty() && buffer.capacity() >= 4));
    }
}
