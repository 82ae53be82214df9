//! What output costs, counted and not timed: calls on the descriptors, and hand-overs to the reader.

use crate::chaos::run;
use crate::fake::Fake;
use crate::on_both_runtimes;
use hostwire::core::child::Cause;
use hostwire::process::{Extras, Session};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Writes until the pipe is full; how much that was.
fn fill(pipe: &OwnedFd) -> usize {
    let mut written = 0;
    loop {
        match rustix::io::write(pipe, &[b'x'; 1 << 16]) {
            Ok(count) => written += count,
            Err(error) => {
                assert_eq!(error, Errno::AGAIN);
                return written;
            }
        }
    }
}

on_both_runtimes! {
    /// However fast a child writes, its pipe is full at worst: that much is one read, one look for more, and one hand-over.
    async fn a_full_pipe_is_one_read_and_one_hand_over(bench) {
        const ROUNDS: usize = 16;
        let (spawned, child_ends) = Fake::default().spawned();
        let session = Session::adopt(&bench, spawned, run(), None, Extras::default()).unwrap();
        bench.pause().await;
        let (before, _) = bench.inner.calls();
        for _ in 0..ROUNDS {
            // Nobody reads meanwhile: its reader is a task of this thread.
            let written = fill(&child_ends[0]);
            let (_, bytes) = session.read().await.unwrap();
            assert_eq!(bytes.len(), written);
        }
        bench.pause().await;
        let counted = bench.inner.calls().0 - before;
        assert!(counted <= 3 * ROUNDS, "{counted} reads for {ROUNDS} full pipes");
        session.close(Cause::Cancelled);
        drop(child_ends);
        assert!(session.ended().await.verdict().is_completed());
    }
}
