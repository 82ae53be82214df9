use super::*;
use std::vec;

const NOW: Instant = Instant::from_micros(1_000_000);
const NEVER: Instant = Instant::FAR_FUTURE;

fn small() -> QueueLimits {
    QueueLimits {
        frames: 4,
        bytes: 100,
        control: 2,
        control_bytes: 10,
        telemetry: 2,
        pending: 6,
        ..QueueLimits::default()
    }
}

fn call(outbox: &mut Outbox, size: usize) -> Result<CallId, Refused> {
    outbox.call(NOW, vec![b'c'; size], Some(vec![b'x'; 3]), NEVER)
}

/// Writes all of it, `step` bytes at a time; what the sink got, frame by frame.
fn drain(outbox: &mut Outbox, step: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(offer) = outbox.poll_transmit() {
        let took = offer.len().min(step);
        all.extend_from_slice(&offer[..took]);
        outbox.accepted(NOW, took);
    }
    all
}

fn settled(outbox: &mut Outbox) -> Vec<(CallId, Sent, Unanswered)> {
    core::iter::from_fn(|| outbox.poll_settled()).map(|s| (s.call, s.sent, s.why)).collect()
}

/// PB1: random use never passes either bound.
#[test]
fn pb1_neither_bound_is_passed_under_any_schedule() {
    let limits = small();
    for seed in 0..50_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut outbox = Outbox::new(limits);
        let (mut slots, mut calls) = (Vec::new(), Vec::new());
        for _ in 0..2_000 {
            let size = draw(60) as usize;
            match draw(8) {
                0 | 1 => calls.extend(call(&mut outbox, size).ok()),
                2 => slots.extend(outbox.reserve_reply(size)),
                3 => {
                    if let Some(slot) = slots.pop() {
                        let _ = outbox.reply(NOW, slot, vec![b'r'; size]);
                    }
                }
                4 => drop(outbox.notify(NOW, vec![b't'; size])),
                5 => {
                    if let Some(call) = calls.pop() {
                        outbox.cancel(NOW, call);
                    }
                }
                6 => drop(outbox.control(NOW, ControlKey::Pong, vec![b'p'; size % 12])),
                _ => {
                    let take = outbox.poll_transmit().map_or(0, |offer| offer.len().min(size));
                    outbox.accepted(NOW, take);
                }
            }
            assert!(outbox.frames() <= limits.frames && outbox.bytes() <= limits.bytes, "{outbox:?}");
            assert!(outbox.control.len() <= limits.control && outbox.pending() <= limits.pending);
            let (data, begun) = (&outbox.data, &outbox.begun);
            assert_eq!(outbox.data_bytes, data.iter().map(|frame| frame.bytes.len()).sum::<usize>());
            assert_eq!(
                outbox.stall_at.is_none(),
                data.is_empty() && begun.is_none() && outbox.control.is_empty()
            );
        }
        let counters = outbox.counters();
        assert!(counters.frames_high <= limits.frames && counters.bytes_high <= limits.bytes);
    }
}

/// PB2: a flood of probes waits as one frame.
#[test]
fn pb2_four_hundred_pings_leave_one_pong() {
    let mut outbox = Outbox::new(QueueLimits::default());
    for ping in 0..400_u16 {
        outbox.control(NOW, ControlKey::Pong, ping.to_le_bytes().to_vec()).unwrap();
    }
    assert_eq!(outbox.control.len(), 1);
    assert_eq!(drain(&mut outbox, 100), 399_u16.to_le_bytes());
}

/// PB3: each class at one below its bound, at it, and beyond.
#[test]
fn pb3_each_class_has_its_own_policy_at_its_bound() {
    // Calls: refused at once, as not sent.
    let mut outbox = Outbox::new(small());
    for _ in 0..4 {
        call(&mut outbox, 1).unwrap();
    }
    assert_eq!(call(&mut outbox, 1), Err(Refused::QueueFull));
    assert_eq!(outbox.pending(), 4, "what was refused is nobody's");
    let mut outbox = Outbox::new(small());
    call(&mut outbox, 99).unwrap();
    call(&mut outbox, 1).unwrap();
    assert_eq!(call(&mut outbox, 1), Err(Refused::QueueFull), "the bytes count by themselves");
    assert_eq!(call(&mut outbox, 101), Err(Refused::TooLarge));
    // Answers that are awaited are bounded as well.
    let mut outbox = Outbox::new(small());
    for _ in 0..6 {
        call(&mut outbox, 1).unwrap();
        drain(&mut outbox, 1);
    }
    assert_eq!(call(&mut outbox, 1), Err(Refused::QueueFull));

    // Replies: room first, and a reserved one is never refused for room.
    let mut outbox = Outbox::new(small());
    let slots: Vec<_> = (0..4).map(|_| outbox.reserve_reply(25).unwrap()).collect();
    assert_eq!(outbox.reserve_reply(0), None, "stop reading, or say busy");
    assert_eq!(call(&mut outbox, 0), Err(Refused::QueueFull));
    for slot in slots {
        outbox.reply(NOW, slot, vec![b'r'; 25]).unwrap();
    }
    assert_eq!(drain(&mut outbox, 7).len(), 100);
    let slot = outbox.reserve_reply(1).unwrap();
    assert_eq!(outbox.reply(NOW, slot, vec![0; 2]), Err(Refused::TooLarge));
    let slot = outbox.reserve_reply(1).unwrap();
    outbox.forgo(slot);
    assert_eq!((outbox.frames(), outbox.bytes()), (0, 0));

    // Control: slots of its own, so that a full data queue does not stop it; equal ones are one.
    let mut outbox = Outbox::new(small());
    for _ in 0..4 {
        call(&mut outbox, 25).unwrap();
    }
    outbox.control(NOW, ControlKey::Pong, vec![b'1']).unwrap();
    outbox.control(NOW, ControlKey::Goodbye, vec![b'g']).unwrap();
    outbox.control(NOW, ControlKey::Pong, vec![b'2']).unwrap();
    assert_eq!(outbox.control(NOW, ControlKey::Cancel(CallId(9)), vec![]), Err(Refused::QueueFull));
    assert_eq!(outbox.control(NOW, ControlKey::Pong, vec![0; 11]), Err(Refused::TooLarge));
    assert!(drain(&mut outbox, 9).starts_with(b"2gccc"));

    // Telemetry: the oldest goes, nothing else.
    let mut outbox = Outbox::new(small());
    let first = call(&mut outbox, 1).unwrap();
    for mark in *b"1234" {
        assert!(outbox.notify(NOW, vec![mark]));
    }
    assert_eq!(outbox.counters().telemetry_dropped, 2);
    call(&mut outbox, 1).unwrap();
    assert!(outbox.notify(NOW, vec![b'5']), "the queue is full, but of telemetry");
    assert_eq!(drain(&mut outbox, 1), b"c4c5");
    assert!(outbox.answered(first));
    for _ in 0..4 {
        call(&mut outbox, 25).unwrap();
    }
    assert!(!outbox.notify(NOW, vec![b'6']), "calls make no room for telemetry");
    assert_eq!(outbox.counters().telemetry_dropped, 4);
}

/// PB4: the time of a sink that takes nothing.
#[test]
fn pb4_a_stalled_sink_is_found_out_and_every_byte_starts_the_time_anew() {
    let second = Duration::from_secs(1);
    let mut outbox = Outbox::new(QueueLimits { stall: second * 10, ..small() });
    assert_eq!(outbox.deadline(), None, "an empty queue has no time");
    call(&mut outbox, 3).unwrap();
    assert_eq!(outbox.deadline(), Some(NOW + second * 10));
    outbox.control(NOW + second, ControlKey::Pong, vec![b'p']).unwrap();
    assert_eq!(outbox.deadline(), Some(NOW + second * 10), "more to write is no progress");
    assert!(!outbox.is_stalled(NOW + second * 9));
    assert!(outbox.is_stalled(NOW + second * 10));
    outbox.poll_transmit().unwrap();
    outbox.accepted(NOW + second * 9, 1);
    assert_eq!(outbox.deadline(), Some(NOW + second * 19), "one byte is");
    outbox.poll_transmit().unwrap();
    outbox.accepted(NOW + second * 9, 3);
    assert_eq!(outbox.deadline(), None);
    let cancelled = call(&mut outbox, 3).unwrap();
    outbox.cancel(NOW, cancelled);
    assert_eq!(outbox.deadline(), None, "a queue that was emptied by a cancel has none either");
}

/// PB5: the end of a flush.
#[test]
fn pb5_what_is_left_at_the_end_was_not_sent_and_the_head_in_part() {
    let mut outbox = Outbox::new(small());
    let out = call(&mut outbox, 1).unwrap();
    drain(&mut outbox, 1);
    let (head, later) = (call(&mut outbox, 5).unwrap(), call(&mut outbox, 5).unwrap());
    assert!(outbox.notify(NOW, vec![b't']));
    outbox.poll_transmit().unwrap();
    outbox.accepted(NOW, 2);
    outbox.close();
    assert_eq!(call(&mut outbox, 1), Err(Refused::Closed));
    outbox.finish(Unanswered::Ended);
    assert_eq!(
        settled(&mut outbox),
        [
            (head, Sent::Partial(2), Unanswered::Ended),
            (later, Sent::Nothing, Unanswered::Ended),
            (out, Sent::Whole, Unanswered::Ended),
        ]
    );
    assert!(outbox.is_idle() && outbox.pending() == 0 && outbox.poll_transmit().is_none());
    assert_eq!(outbox.counters().unsent, 1);
    outbox.finish(Unanswered::Ended);
    assert_eq!(settled(&mut outbox), [], "once is enough");
}

/// PB6: whole frames, whatever the sink takes.
#[test]
fn pb6_frames_never_interleave() {
    for step in 1..9 {
        let mut outbox = Outbox::new(small());
        for mark in *b"abc" {
            outbox.call(NOW, vec![mark; 6], None, NEVER).unwrap();
        }
        let mut got = Vec::new();
        while let Some(offer) = outbox.poll_transmit() {
            let took = offer.len().min(step);
            got.extend_from_slice(&offer[..took]);
            outbox.accepted(NOW, took);
            // In the middle of everything.
            outbox.control(NOW, ControlKey::Pong, vec![b'p'; 2]).unwrap();
            if got.len() > 20 {
                outbox.control.clear();
            }
        }
        let mut rest = &got[..];
        while let [mark, ..] = rest {
            let size = if *mark == b'p' { 2 } else { 6 };
            assert!(rest[..size].iter().all(|byte| byte == mark), "{got:?}");
            rest = &rest[size..];
        }
    }
}

/// PB7, PB8: a cancel where the frame stands.
#[test]
fn pb7_a_cancel_does_what_the_frame_needs_and_pb8_only_once() {
    // Queued: gone, and nothing is said.
    let mut outbox = Outbox::new(small());
    let queued = call(&mut outbox, 4).unwrap();
    outbox.cancel(NOW, queued);
    outbox.cancel(NOW, queued);
    assert_eq!(settled(&mut outbox), [(queued, Sent::Nothing, Unanswered::Cancelled)]);
    assert_eq!(drain(&mut outbox, 9), b"");
    // Partly written: it completes, then one notice.
    let partly = call(&mut outbox, 4).unwrap();
    outbox.poll_transmit().unwrap();
    outbox.accepted(NOW, 1);
    outbox.cancel(NOW, partly);
    outbox.cancel(NOW, partly);
    assert_eq!(settled(&mut outbox), [(partly, Sent::Partial(1), Unanswered::Cancelled)]);
    assert_eq!(drain(&mut outbox, 9), b"cccxxx");
    // Sent: one notice.
    let sent = call(&mut outbox, 4).unwrap();
    drain(&mut outbox, 9);
    outbox.cancel(NOW, sent);
    outbox.cancel(NOW, sent);
    assert_eq!(settled(&mut outbox), [(sent, Sent::Whole, Unanswered::Cancelled)]);
    assert_eq!(drain(&mut outbox, 9), b"xxx");
    // Never for one without a notice: `initialize`.
    for taken in [1, 4] {
        let initialize = outbox.call(NOW, vec![b'i'; 4], None, NEVER).unwrap();
        outbox.poll_transmit().unwrap();
        outbox.accepted(NOW, taken);
        outbox.cancel(NOW, initialize);
        assert_eq!(drain(&mut outbox, 9).len(), 4 - taken);
    }
}

/// PB9: no room for the notice.
#[test]
fn pb9_a_notice_without_room_is_counted_and_the_call_settles_all_the_same() {
    let mut outbox = Outbox::new(QueueLimits { control: 1, ..small() });
    let sent = call(&mut outbox, 4).unwrap();
    drain(&mut outbox, 9);
    outbox.control(NOW, ControlKey::Pong, vec![b'p']).unwrap();
    outbox.cancel(NOW, sent);
    assert_eq!(settled(&mut outbox), [(sent, Sent::Whole, Unanswered::Cancelled)]);
    assert_eq!(outbox.counters().notices_lost, 1);
    assert_eq!(drain(&mut outbox, 9), b"p");
}

/// PB10: a broken sink.
#[test]
fn pb10_a_write_error_settles_the_head_with_what_was_sent_and_the_rest_as_not_sent() {
    let mut outbox = Outbox::new(small());
    let out = call(&mut outbox, 1).unwrap();
    drain(&mut outbox, 1);
    let (head, later) = (call(&mut outbox, 3).unwrap(), call(&mut outbox, 3).unwrap());
    assert!(outbox.notify(NOW, vec![b't']));
    outbox.control(NOW, ControlKey::Pong, vec![b'p']).unwrap();
    drain_one(&mut outbox); // the control frame
    outbox.poll_transmit().unwrap();
    outbox.accepted(NOW, 1);
    outbox.write_failed();
    assert_eq!(
        settled(&mut outbox),
        [(head, Sent::Partial(1), Unanswered::WriteFailed), (later, Sent::Nothing, Unanswered::WriteFailed)]
    );
    assert_eq!(outbox.counters().unsent, 1);
    assert!(outbox.answered(out), "what is out can still be answered");
    assert_eq!(call(&mut outbox, 1), Err(Refused::Closed));
}

fn drain_one(outbox: &mut Outbox) {
    let size = outbox.poll_transmit().unwrap().len();
    outbox.accepted(NOW, size);
}

/// PB11: answers that come too late.
#[test]
fn pb11_a_late_reply_is_dropped_and_counted() {
    let mut outbox = Outbox::new(small());
    let (first, second) = (call(&mut outbox, 1).unwrap(), NOW + Duration::from_secs(1));
    let timed = outbox.call(NOW, vec![b'c'], None, second).unwrap();
    let never_sent = call(&mut outbox, 1).unwrap();
    drain_one(&mut outbox);
    drain_one(&mut outbox);
    outbox.cancel(NOW, first);
    assert_eq!(outbox.deadline(), Some(second));
    outbox.handle_timeout(second);
    assert_eq!(
        settled(&mut outbox),
        [(first, Sent::Whole, Unanswered::Cancelled), (timed, Sent::Whole, Unanswered::Deadline)]
    );
    assert!(!outbox.answered(first) && !outbox.answered(timed));
    assert!(!outbox.answered(never_sent), "nobody answers what has not been asked");
    assert_eq!(outbox.counters().late_replies, 3);
}

/// PB15: what was sent is exact at every cut.
#[test]
fn pb15_the_send_outcome_is_exact_at_every_cut_for_every_end() {
    const SIZE: usize = 5;
    for cut in [0, 1, SIZE - 1, SIZE] {
        for end in ["eof", "reset", "stall", "cancel", "shutdown"] {
            let mut outbox = Outbox::new(small());
            let id = call(&mut outbox, SIZE).unwrap();
            outbox.poll_transmit().unwrap();
            outbox.accepted(NOW, cut);
            match end {
                "cancel" => outbox.cancel(NOW, id),
                "reset" => {
                    outbox.write_failed();
                    outbox.finish(Unanswered::Ended);
                }
                _ => outbox.finish(Unanswered::Ended),
            }
            let expected = match cut {
                0 => Sent::Nothing,
                SIZE => Sent::Whole,
                part => Sent::Partial(part),
            };
            let got = settled(&mut outbox);
            assert_eq!(got.len(), 1, "{end} at {cut}");
            assert_eq!((got[0].0, got[0].1), (id, expected), "{end} at {cut}");
        }
    }
}
