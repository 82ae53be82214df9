//! What may be sent again, and when: the whole of O4 and O5 in one function.

use super::backoff::Backoff;
use crate::control::{ErrorBody, HostCode};
use crate::outcome::{Outcome, Terminal};
use crate::time::Instant;
use core::time::Duration;

/// Which retries are made. Each can be switched off; nothing outside this list is ever made (O4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// `route.open` on `unknown_module`, `module_reloading`, `target_unavailable`, `module_timeout`.
    pub route_open: bool,
    /// A routed request, once, on a fresh route, after `unknown_channel`.
    pub unknown_channel: bool,
    /// Any request after `server_busy`.
    pub server_busy: bool,
    /// The delays.
    pub backoff: Backoff,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { route_open: true, unknown_channel: true, server_busy: true, backoff: Backoff::REQUEST }
    }
}

impl RetryPolicy {
    /// Nothing is sent again.
    pub const NONE: Self =
        Self { route_open: false, unknown_channel: false, server_busy: false, backoff: Backoff::REQUEST };
}

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// `route.open`.
    RouteOpen,
    /// A request on a route.
    Routed,
    /// Another control request.
    Control,
}

/// What follows an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the caller's.
    Return,
    /// Nothing ran: try again at that moment, under a new correlation.
    Again(Instant),
    /// Nothing ran and the route is gone: open a fresh one now and send it there, once.
    Reopen,
}

/// The retries of one operation, all within its one deadline (E1).
#[derive(Debug)]
pub struct Retry {
    policy: RetryPolicy,
    backoff: Backoff,
    deadline: Instant,
    reopened: bool,
    attempts: u32,
}

impl Retry {
    /// No attempt made yet.
    #[must_use]
    pub const fn new(policy: RetryPolicy, deadline: Instant) -> Self {
        Self { policy, backoff: policy.backoff, deadline, reopened: false, attempts: 0 }
    }

    /// The operation's one deadline.
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Attempts whose outcome has been judged.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Judges an outcome. Only an `Error` that proves that nothing ran is followed by another attempt, and only if that would begin
    /// before the deadline (O5).
    #[must_use]
    pub fn judge(&mut self, now: Instant, attempt: Attempt, outcome: &Outcome) -> Verdict {
        self.attempts += 1;
        match outcome {
            Outcome::Terminal(Terminal::Error(error)) => self.judge_error(now, attempt, error),
            Outcome::NotSent { .. } | Outcome::Unknown { .. } => Verdict::Return, // O4: never by the library
            Outcome::Terminal(
                Terminal::Response { .. }
                | Terminal::StreamEnd { .. }
                | Terminal::RouteOpened(_)
                | Terminal::Catalog(_)
                | Terminal::ShutdownCommitted
                | Terminal::Local(_),
            ) => Verdict::Return,
        }
    }

    fn judge_error(&mut self, now: Instant, attempt: Attempt, error: &ErrorBody) -> Verdict {
        let Some(code) = error.host_code() else { return Verdict::Return };
        let allowed = match (code, attempt) {
            (HostCode::UnknownChannel, Attempt::Routed) if self.policy.unknown_channel && !self.reopened => {
                self.reopened = true; // AE5: one reopen and one resend
                return if now < self.deadline { Verdict::Reopen } else { Verdict::Return };
            }
            (HostCode::ServerBusy, Attempt::RouteOpen | Attempt::Routed | Attempt::Control) => {
                self.policy.server_busy
            }
            (
                HostCode::UnknownModule
                | HostCode::ModuleReloading
                | HostCode::TargetUnavailable
                | HostCode::ModuleTimeout,
                Attempt::RouteOpen,
            ) => self.policy.route_open,
            _ => false,
        };
        if !allowed {
            return Verdict::Return;
        }
        let hint = Duration::from_millis(error.retry_after_ms().unwrap_or(0));
        let at = now + self.backoff.advance().max(hint); // O5: never less than the hint
        if at < self.deadline { Verdict::Again(at) } else { Verdict::Return }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Body;
    use crate::outcome::{LocalCode, NotSentCode, UnknownCode};

    const T0: Instant = Instant::ZERO;

    fn ms(n: u64) -> Instant {
        Instant::from_micros(n * 1000)
    }

    fn error(code: &str, hint: Option<u64>) -> Outcome {
        let hint =
            hint.map_or(alloc::string::String::new(), |hint| alloc::format!(r#","retry_after_ms":{hint}"#));
        let body = alloc::format!(r#"{{"code":"{code}","message":""{hint}}}"#);
        Outcome::Terminal(Terminal::Error(ErrorBody::decode(body.as_bytes()).unwrap()))
    }

    fn retry() -> Retry {
        Retry::new(RetryPolicy::default(), ms(1000))
    }

    #[test]
    fn o4_ae4_only_what_the_list_names_is_sent_again() {
        use Attempt::{Control, RouteOpen, Routed};
        let again = Verdict::Again(ms(25));
        let table = [
            ("unknown_module", [again, Verdict::Return, Verdict::Return]),
            ("module_reloading", [again, Verdict::Return, Verdict::Return]),
            ("target_unavailable", [again, Verdict::Return, Verdict::Return]),
            ("module_timeout", [again, Verdict::Return, Verdict::Return]),
            ("unknown_channel", [Verdict::Return, Verdict::Reopen, Verdict::Return]),
            ("server_busy", [again, again, again]),
            ("internal_error", [Verdict::Return; 3]),
            ("invalid_control_request", [Verdict::Return; 3]),
            ("bind_rejected", [Verdict::Return; 3]),
            ("cancelled", [Verdict::Return; 3]),
            ("of_the_application", [Verdict::Return; 3]), // B029
        ];
        for (code, verdicts) in table {
            for (attempt, verdict) in [RouteOpen, Routed, Control].into_iter().zip(verdicts) {
                assert_eq!(retry().judge(T0, attempt, &error(code, None)), verdict, "{code} {attempt:?}");
                let mut off = Retry::new(RetryPolicy::NONE, ms(1000));
                assert_eq!(off.judge(T0, attempt, &error(code, None)), Verdict::Return);
            }
        }
    }

    #[test]
    fn b028_nothing_uncertain_and_nothing_ended_is_sent_again() {
        let outcomes = [
            Outcome::NotSent { code: NotSentCode::ConnectionRetired, body: Body::default() },
            Outcome::Unknown { code: UnknownCode::ConnectionLost },
            Outcome::Terminal(Terminal::Response { binary: false, body: Body::default() }),
            Outcome::Terminal(Terminal::Local(LocalCode::MalformedError)),
            Outcome::Terminal(Terminal::StreamEnd { items: 0 }),
        ];
        for outcome in &outcomes {
            assert_eq!(retry().judge(T0, Attempt::Routed, outcome), Verdict::Return);
        }
    }

    #[test]
    fn ae5_an_unknown_channel_is_reopened_once() {
        let mut retry = retry();
        assert_eq!(retry.judge(T0, Attempt::Routed, &error("unknown_channel", None)), Verdict::Reopen);
        assert_eq!(retry.judge(T0, Attempt::Routed, &error("unknown_channel", None)), Verdict::Return);
        assert_eq!(retry.attempts(), 2);
    }

    #[test]
    fn o5_the_delay_is_at_least_the_hint_and_no_try_passes_the_deadline() {
        let mut retry = retry();
        assert_eq!(
            retry.judge(T0, Attempt::Routed, &error("server_busy", Some(300))),
            Verdict::Again(ms(300))
        );
        assert_eq!(
            retry.judge(ms(300), Attempt::Routed, &error("server_busy", None)),
            Verdict::Again(ms(350))
        );
        assert_eq!(retry.judge(ms(900), Attempt::Routed, &error("server_busy", Some(1))), Verdict::Return);
        assert_eq!(retry.deadline(), ms(1000));
        let mut exact = Retry::new(RetryPolicy::default(), ms(25));
        assert_eq!(exact.judge(T0, Attempt::Routed, &error("server_busy", None)), Verdict::Return);
        let mut late = Retry::new(RetryPolicy::default(), ms(25));
        assert_eq!(late.judge(ms(25), Attempt::Routed, &error("unknown_channel", None)), Verdict::Return);
        assert_eq!(
            Retry::new(RetryPolicy::default(), ms(1000)).judge(
                T0,
                Attempt::Routed,
                &error("server_busy", Some(u64::MAX))
            ),
            Verdict::Return
        );
    }
}
