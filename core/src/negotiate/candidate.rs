//! A granted candidate on its way to being the connection: activate, commit, and everything that ends it (N10, N11).
//!
//! One small state per side, one transition function each, both total. Whatever is not the next expected step retires
//! the candidate, and the bootstrap connection with it: that is the caller's, as are deadlines and sockets.
//!
//! Of the contract's states a host's candidate is `CandidatePrepared`, `AwaitingCommit` and `CandidateActive`, with a
//! state between the last two while the commit's response leaves; a client's is `Activating`, `AwaitingCommit` and
//! `CandidateActive`.

use alloc::vec::Vec;

use super::token::ActivationToken;
use super::{NEGOTIATION_VERSION, NegotiateError, expect_version, root};
use crate::control::op;
use crate::json::{self, ObjectWriter};
use crate::wire::Correlation;

/// The correlation of a candidate's first application request (N10).
pub const FIRST_APPLICATION_CORRELATION: u64 = 3;

const ACTIVATE_CORRELATION: u64 = 1;
const COMMIT_CORRELATION: u64 = 2;

fn encode(op: &str, rest: impl FnOnce(&mut ObjectWriter<'_>)) -> Vec<u8> {
    let mut body = Vec::with_capacity(128);
    json::write_object(&mut body, |body| {
        body.string("op", op);
        body.number("negotiation_version", NEGOTIATION_VERSION.into());
        rest(body);
    });
    body
}

/// A body of this op and version, and nothing else.
fn decode_bare(body: &[u8], binary: bool, op: &str) -> Result<(), NegotiateError> {
    let body = root(body, binary)?;
    expect_version(body, op)?;
    body.pick_closed(["op", "negotiation_version"])?;
    Ok(())
}

/// The request `transport.activate`: correlation 1 on a candidate (N10).
#[must_use]
pub fn encode_activate(token: &ActivationToken) -> Vec<u8> {
    encode(op::ACTIVATE, |body| body.string("activation_token", &token.to_hex()))
}

/// Reads the request `transport.activate`, strictly.
///
/// # Errors
///
/// Any malformed body (N4, N11).
pub fn decode_activate(body: &[u8], binary: bool) -> Result<ActivationToken, NegotiateError> {
    let body = root(body, binary)?;
    expect_version(body, op::ACTIVATE)?;
    let [_, _, token] = body.pick_closed(["op", "negotiation_version", "activation_token"])?;
    Ok(ActivationToken::decode(token.required()?)?)
}

/// The success of `transport.activate`.
#[must_use]
pub fn encode_activated() -> Vec<u8> {
    encode(op::ACTIVATE, |_| {})
}

/// Judges the success of `transport.activate`, strictly.
///
/// # Errors
///
/// Any other body (N10).
pub fn validate_activated(body: &[u8], binary: bool) -> Result<(), NegotiateError> {
    decode_bare(body, binary, op::ACTIVATE)
}

/// The request `transport.commit`: correlation 2 on a candidate (N10).
#[must_use]
pub fn encode_commit() -> Vec<u8> {
    encode(op::COMMIT, |_| {})
}

/// Reads the request `transport.commit`, strictly.
///
/// # Errors
///
/// Any other body (N10).
pub fn decode_commit(body: &[u8], binary: bool) -> Result<(), NegotiateError> {
    decode_bare(body, binary, op::COMMIT)
}

/// The success of `transport.commit`.
#[must_use]
pub fn encode_committed() -> Vec<u8> {
    encode(op::COMMIT, |_| {})
}

/// Judges the success of `transport.commit`, strictly.
///
/// # Errors
///
/// Any other body (N10).
pub fn validate_committed(body: &[u8], binary: bool) -> Result<(), NegotiateError> {
    decode_bare(body, binary, op::COMMIT)
}

/// Why a candidate is retired, and the bootstrap connection with it (N11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum CandidateError {
    /// A body that is not the one that belongs here.
    #[error(transparent)]
    Message(#[from] NegotiateError),
    /// A step under another correlation than its own (N10).
    #[error("wrong correlation on a candidate")]
    WrongCorrelation,
    /// A token that was not granted (N11).
    #[error("wrong activation token")]
    WrongToken,
    /// A frame that may not stand here: out of turn, a second activation, or an early application frame (N11).
    #[error("unexpected frame on a candidate")]
    Unexpected,
    /// The candidate has been retired before.
    #[error("the candidate is retired")]
    Retired,
}

/// Where a candidate stands on the host's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostState {
    /// Granted; its token has not been shown.
    Prepared,
    /// The token has been shown, and is used up.
    AwaitingCommit,
    /// Committed; the response is on its way out.
    Committing,
    /// It is the connection.
    Active,
    /// Final.
    Retired,
}

/// What happens to a candidate on the host's side, already judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostInput {
    /// A good `transport.activate` under its correlation, with the granted token.
    Activate,
    /// A good `transport.commit` under its correlation.
    Commit,
    /// The commit's response has been wholly handed to the socket.
    CommitWritten,
    /// Any other frame.
    Unexpected,
    /// Timeout, loss of the candidate or of the bootstrap before the commit, or a decision of this side.
    End,
}

impl HostState {
    /// The one transition function.
    #[must_use]
    pub const fn next(self, input: HostInput) -> Self {
        match (self, input) {
            (Self::Prepared, HostInput::Activate) => Self::AwaitingCommit,
            (Self::AwaitingCommit, HostInput::Commit) => Self::Committing,
            // N11: routable once the response has been wholly handed over, not before.
            (Self::Committing, HostInput::CommitWritten) => Self::Active,
            // An active candidate's frames are the connection's, and no step of this.
            (
                Self::Active,
                HostInput::Activate | HostInput::Commit | HostInput::CommitWritten | HostInput::Unexpected,
            ) => Self::Active,
            // N11: everything else ends both.
            (Self::Prepared, HostInput::Commit | HostInput::CommitWritten | HostInput::Unexpected)
            | (
                Self::AwaitingCommit,
                HostInput::Activate | HostInput::CommitWritten | HostInput::Unexpected,
            )
            | (Self::Committing, HostInput::Activate | HostInput::Commit | HostInput::Unexpected)
            | (
                Self::Retired,
                HostInput::Activate | HostInput::Commit | HostInput::CommitWritten | HostInput::Unexpected,
            )
            | (
                Self::Prepared | Self::AwaitingCommit | Self::Committing | Self::Active | Self::Retired,
                HostInput::End,
            ) => Self::Retired,
        }
    }
}

/// What the host does about a request on a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostStep {
    /// Answer the request with this body.
    Answer(Vec<u8>),
    /// The candidate is active: the request is the connection's.
    Application,
}

/// A candidate that the host has granted.
#[derive(Debug)]
pub struct HostCandidate {
    state: HostState,
    token: ActivationToken,
}

impl HostCandidate {
    /// A candidate under this token, which belongs to the granting generation alone (N11).
    #[must_use]
    pub const fn new(token: ActivationToken) -> Self {
        Self { state: HostState::Prepared, token }
    }

    /// Where it stands.
    #[must_use]
    pub const fn state(&self) -> HostState {
        self.state
    }

    /// A control request has arrived whole.
    ///
    /// # Errors
    ///
    /// [`CandidateError`]: the candidate is retired; close it and the bootstrap without a frame (N11).
    pub fn handle_request(
        &mut self,
        correlation: Correlation,
        body: &[u8],
        binary: bool,
    ) -> Result<HostStep, CandidateError> {
        let judged = match self.state {
            HostState::Prepared => self.judge_activate(correlation, body, binary),
            HostState::AwaitingCommit => judge_commit(correlation, body, binary),
            HostState::Committing => Err(CandidateError::Unexpected),
            HostState::Active => return Ok(HostStep::Application),
            HostState::Retired => return Err(CandidateError::Retired),
        };
        let (input, answer) = match judged {
            Ok((input, answer)) => (input, Ok(HostStep::Answer(answer))),
            Err(error) => (HostInput::Unexpected, Err(error)),
        };
        self.handle(input);
        answer
    }

    fn judge_activate(
        &self,
        correlation: Correlation,
        body: &[u8],
        binary: bool,
    ) -> Result<(HostInput, Vec<u8>), CandidateError> {
        expect_correlation(correlation, ACTIVATE_CORRELATION)?;
        // N11: the comparison is the token's, in constant time. Leaving this state uses it up.
        if decode_activate(body, binary)? == self.token {
            Ok((HostInput::Activate, encode_activated()))
        } else {
            Err(CandidateError::WrongToken)
        }
    }

    /// Anything else happened: any other frame, the commit's response has left, or the candidate ends. Returns where it
    /// stands now.
    pub const fn handle(&mut self, input: HostInput) -> HostState {
        self.state = self.state.next(input);
        self.state
    }
}

fn judge_commit(
    correlation: Correlation,
    body: &[u8],
    binary: bool,
) -> Result<(HostInput, Vec<u8>), CandidateError> {
    expect_correlation(correlation, COMMIT_CORRELATION)?;
    decode_commit(body, binary)?;
    Ok((HostInput::Commit, encode_committed()))
}

fn expect_correlation(found: Correlation, wanted: u64) -> Result<(), CandidateError> {
    if found.value() == wanted { Ok(()) } else { Err(CandidateError::WrongCorrelation) }
}

/// Where a candidate stands on the client's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientState {
    /// `transport.activate` has been sent, or is about to be.
    Activating,
    /// `transport.commit` has been sent, or is about to be.
    AwaitingCommit,
    /// It is the connection; the bootstrap may go.
    Active,
    /// Final.
    Retired,
}

/// What happens to a candidate on the client's side, already judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientInput {
    /// A good success of `transport.activate`.
    Activated,
    /// A good success of `transport.commit`.
    Committed,
    /// Any other frame, an `Error` among them. A `Ping` is not for this: it is answered in every state (N13).
    Unexpected,
    /// Timeout, loss of the candidate or of the bootstrap before the commit, or a decision of this side.
    End,
}

impl ClientState {
    /// The one transition function.
    #[must_use]
    pub const fn next(self, input: ClientInput) -> Self {
        match (self, input) {
            (Self::Activating, ClientInput::Activated) => Self::AwaitingCommit,
            // N11: routable once the response has been validated.
            (Self::AwaitingCommit, ClientInput::Committed) => Self::Active,
            (Self::Active, ClientInput::Activated | ClientInput::Committed | ClientInput::Unexpected) => {
                Self::Active
            }
            // N11: everything else ends both.
            (Self::Activating, ClientInput::Committed | ClientInput::Unexpected)
            | (Self::AwaitingCommit, ClientInput::Activated | ClientInput::Unexpected)
            | (Self::Retired, ClientInput::Activated | ClientInput::Committed | ClientInput::Unexpected)
            | (Self::Activating | Self::AwaitingCommit | Self::Active | Self::Retired, ClientInput::End) => {
                Self::Retired
            }
        }
    }
}

/// What the client does about a response on a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientStep {
    /// Send this request, under correlation 2.
    Commit(Vec<u8>),
    /// The candidate has just become the connection: close the bootstrap (N10).
    Active,
    /// The candidate was active before: the response is the connection's.
    Application,
}

/// A candidate that the client has been granted and has reached.
#[derive(Debug)]
pub struct ClientCandidate {
    state: ClientState,
}

impl ClientCandidate {
    /// The candidate, and the request to send on it under correlation 1.
    #[must_use]
    pub fn new(token: &ActivationToken) -> (Self, Vec<u8>) {
        (Self { state: ClientState::Activating }, encode_activate(token))
    }

    /// Where it stands.
    #[must_use]
    pub const fn state(&self) -> ClientState {
        self.state
    }

    /// A control response has arrived whole.
    ///
    /// # Errors
    ///
    /// [`CandidateError`]: the candidate is retired; close it and the bootstrap (N11).
    pub fn handle_response(
        &mut self,
        correlation: Correlation,
        body: &[u8],
        binary: bool,
    ) -> Result<ClientStep, CandidateError> {
        let judged = match self.state {
            ClientState::Activating => expect_correlation(correlation, ACTIVATE_CORRELATION)
                .and_then(|()| Ok(validate_activated(body, binary)?))
                .map(|()| (ClientInput::Activated, ClientStep::Commit(encode_commit()))),
            ClientState::AwaitingCommit => expect_correlation(correlation, COMMIT_CORRELATION)
                .and_then(|()| Ok(validate_committed(body, binary)?))
                .map(|()| (ClientInput::Committed, ClientStep::Active)),
            ClientState::Active => return Ok(ClientStep::Application),
            ClientState::Retired => return Err(CandidateError::Retired),
        };
        let (input, step) = match judged {
            Ok((input, step)) => (input, Ok(step)),
            Err(error) => (ClientInput::Unexpected, Err(error)),
        };
        self.handle(input);
        step
    }

    /// Anything else happened: any other frame, or the candidate ends. Returns where it stands now.
    pub const fn handle(&mut self, input: ClientInput) -> ClientState {
        self.state = self.state.next(input);
        self.state
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;
    use crate::json::Problem;

    fn corr(n: u64) -> Correlation {
        Correlation::new(n).unwrap()
    }

    fn token(byte: u8) -> ActivationToken {
        ActivationToken::new([byte; 16])
    }

    #[test]
    fn n10_n11_the_hosts_table_is_this() {
        use HostInput::*;
        use HostState::*;
        let inputs = [Activate, Commit, CommitWritten, Unexpected, End];
        for (state, wanted) in [
            (Prepared, [AwaitingCommit, Retired, Retired, Retired, Retired]),
            (AwaitingCommit, [Retired, Committing, Retired, Retired, Retired]),
            (Committing, [Retired, Retired, Active, Retired, Retired]),
            (Active, [Active, Active, Active, Active, Retired]),
            (Retired, [Retired; 5]),
        ] {
            assert_eq!(inputs.map(|input| state.next(input)), wanted, "{state:?}");
        }
    }

    #[test]
    fn n10_n11_the_clients_table_is_this() {
        use ClientInput::*;
        use ClientState::*;
        let inputs = [Activated, Committed, Unexpected, End];
        for (state, wanted) in [
            (Activating, [AwaitingCommit, Retired, Retired, Retired]),
            (AwaitingCommit, [Retired, Active, Retired, Retired]),
            (Active, [Active, Active, Active, Retired]),
            (Retired, [Retired; 4]),
        ] {
            assert_eq!(inputs.map(|input| state.next(input)), wanted, "{state:?}");
        }
    }

    #[test]
    fn n10_both_sides_go_from_grant_to_connection_in_two_requests() {
        let mut host = HostCandidate::new(token(7));
        let (mut client, activate) = ClientCandidate::new(&token(7));
        assert_eq!((host.state(), client.state()), (HostState::Prepared, ClientState::Activating));
        let Ok(HostStep::Answer(activated)) = host.handle_request(corr(1), &activate, false) else {
            panic!()
        };
        assert_eq!(host.state(), HostState::AwaitingCommit);
        let Ok(ClientStep::Commit(commit)) = client.handle_response(corr(1), &activated, false) else {
            panic!()
        };
        assert_eq!(client.state(), ClientState::AwaitingCommit);
        let Ok(HostStep::Answer(committed)) = host.handle_request(corr(2), &commit, false) else { panic!() };
        // N11: not routable before the response has left.
        assert_eq!(host.state(), HostState::Committing);
        assert_eq!(host.handle(HostInput::CommitWritten), HostState::Active);
        assert_eq!(client.handle_response(corr(2), &committed, false), Ok(ClientStep::Active));
        assert_eq!(client.state(), ClientState::Active);
        let first = corr(FIRST_APPLICATION_CORRELATION);
        assert_eq!(host.handle_request(first, b"anything", true), Ok(HostStep::Application));
        assert_eq!(client.handle_response(first, b"anything", true), Ok(ClientStep::Application));
    }

    #[test]
    fn n10_the_messages_are_spelled_as_the_contract_spells_them() {
        let text = |body| String::from_utf8(body).unwrap();
        let activate = format!(
            r#"{{"op":"transport.activate","negotiation_version":1,"activation_token":"{}"}}"#,
            "07".repeat(16)
        );
        assert_eq!(text(encode_activate(&token(7))), activate);
        assert_eq!(text(encode_activated()), r#"{"op":"transport.activate","negotiation_version":1}"#);
        assert_eq!(text(encode_commit()), r#"{"op":"transport.commit","negotiation_version":1}"#);
        assert_eq!(encode_committed(), encode_commit());
    }

    #[test]
    fn n11_a_wrong_token_correlation_or_message_retires_the_hosts_candidate() {
        let activate = encode_activate(&token(7));
        let after = |corr: Correlation, body: &[u8], binary: bool| {
            let mut host = HostCandidate::new(token(7));
            let result = host.handle_request(corr, body, binary);
            assert_eq!(host.state(), HostState::Retired);
            assert_eq!(host.handle_request(self::corr(1), &activate, false), Err(CandidateError::Retired));
            result.unwrap_err()
        };
        assert_eq!(after(corr(1), &encode_activate(&token(8)), false), CandidateError::WrongToken);
        assert_eq!(after(corr(2), &activate, false), CandidateError::WrongCorrelation);
        assert_eq!(after(corr(3), &activate, false), CandidateError::WrongCorrelation);
        assert_eq!(after(corr(1), &activate, true), CandidateError::Message(NegotiateError::Binary));
        assert!(matches!(after(corr(1), &encode_commit(), false), CandidateError::Message(_)));
        assert!(matches!(after(corr(1), b"", false), CandidateError::Message(_)));
    }

    #[test]
    fn n11_a_token_is_used_once_and_nothing_stands_between_the_steps() {
        let prepared = || {
            let mut host = HostCandidate::new(token(7));
            host.handle_request(corr(1), &encode_activate(&token(7)), false).unwrap();
            host
        };
        let mut host = prepared();
        let again = host.handle_request(corr(2), &encode_activate(&token(7)), false);
        assert!(matches!(again, Err(CandidateError::Message(_))));
        assert_eq!(host.state(), HostState::Retired);
        let mut host = prepared();
        assert_eq!(
            host.handle_request(corr(1), &encode_commit(), false),
            Err(CandidateError::WrongCorrelation)
        );
        assert_eq!(host.state(), HostState::Retired);
        let mut host = prepared();
        host.handle_request(corr(2), &encode_commit(), false).unwrap();
        // An application request ahead of the commit's response.
        assert_eq!(host.handle_request(corr(3), b"{}", false), Err(CandidateError::Unexpected));
        assert_eq!(host.state(), HostState::Retired);
    }

    #[test]
    fn n11_a_wrong_correlation_or_message_retires_the_clients_candidate() {
        let after = |corr: Correlation, body: &[u8], binary: bool| {
            let (mut client, _) = ClientCandidate::new(&token(7));
            let result = client.handle_response(corr, body, binary);
            assert_eq!(client.state(), ClientState::Retired);
            assert_eq!(
                client.handle_response(self::corr(1), &encode_activated(), false),
                Err(CandidateError::Retired)
            );
            result.unwrap_err()
        };
        assert_eq!(after(corr(2), &encode_activated(), false), CandidateError::WrongCorrelation);
        assert_eq!(
            after(corr(1), &encode_activated(), true),
            CandidateError::Message(NegotiateError::Binary)
        );
        assert!(matches!(after(corr(1), &encode_committed(), false), CandidateError::Message(_)));
        let (mut client, _) = ClientCandidate::new(&token(7));
        client.handle_response(corr(1), &encode_activated(), false).unwrap();
        assert_eq!(
            client.handle_response(corr(3), &encode_committed(), false),
            Err(CandidateError::WrongCorrelation)
        );
        let (mut client, _) = ClientCandidate::new(&token(7));
        client.handle_response(corr(1), &encode_activated(), false).unwrap();
        assert!(matches!(
            client.handle_response(corr(2), &encode_activated(), false),
            Err(CandidateError::Message(_))
        ));
        assert_eq!(client.state(), ClientState::Retired);
        let (mut client, _) = ClientCandidate::new(&token(7));
        assert_eq!(client.handle(ClientInput::End), ClientState::Retired);
    }

    #[test]
    fn n4_the_messages_are_read_strictly() {
        let good = String::from_utf8(encode_activate(&token(7))).unwrap();
        assert_eq!(decode_activate(good.as_bytes(), false), Ok(token(7)));
        let problem = |result: Result<_, NegotiateError>| match result {
            Err(NegotiateError::Malformed(error)) => error.problem,
            other => panic!("{other:?}"),
        };
        let read = |text: &str| decode_activate(text.as_bytes(), false).map(|_| ());
        assert_eq!(problem(read(&good.replacen('{', "{\"x\":1,", 1))), Problem::Unknown);
        assert_eq!(problem(read(&good.replace("activation_token", "token"))), Problem::Unknown);
        assert_eq!(problem(read(r#"{"op":"transport.activate","negotiation_version":1}"#)), Problem::Missing);
        assert_eq!(problem(read(&good.replace(":1,", ":null,"))), Problem::WrongType);
        assert_eq!(read(&good.replace(":1,", ":2,")), Err(NegotiateError::UnsupportedVersion));
        for (good, read) in [
            (encode_activated(), validate_activated as fn(&[u8], bool) -> _),
            (encode_commit(), decode_commit),
            (encode_committed(), validate_committed),
        ] {
            let good = String::from_utf8(good).unwrap();
            assert_eq!(read(good.as_bytes(), false), Ok(()));
            assert_eq!(read(good.as_bytes(), true), Err(NegotiateError::Binary));
            assert_eq!(problem(read(good.replacen('{', "{\"x\":1,", 1).as_bytes(), false)), Problem::Unknown);
            assert_eq!(problem(read(good.replace("transport.", "").as_bytes(), false)), Problem::NotAllowed);
            assert_eq!(
                read(good.replace(":1}", ":2}").as_bytes(), false),
                Err(NegotiateError::UnsupportedVersion)
            );
        }
    }

    #[test]
    fn n15_a_candidate_does_not_print_its_token() {
        assert!(!format!("{:?}", HostCandidate::new(token(0xaf))).contains("af"));
    }
}
