//! h2 itself, without gRPC above it: one HTTP/2 stream per request, windows wide open.

use bytes::Bytes;
use harness::{Peer, body};
use http::{Request, Response};
use tokio::net::TcpStream;

async fn collect(mut body: h2::RecvStream) -> Bytes {
    let mut first: Option<Bytes> = None;
    let mut rest = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.expect("data");
        let _ = body.flow_control().release_capacity(chunk.len());
        if first.is_none() && rest.is_empty() {
            first = Some(chunk);
        } else {
            rest.extend_from_slice(&first.take().unwrap_or_default());
            rest.extend_from_slice(&chunk);
        }
    }
    first.unwrap_or_else(|| rest.into())
}

#[derive(Clone)]
struct Caller(h2::client::SendRequest<Bytes>);

impl harness::Client for Caller {
    async fn call(&self, body: Vec<u8>) -> usize {
        let mut client = self.0.clone().ready().await.expect("a connection");
        let request = Request::post("http://localhost/echo").body(()).expect("a request");
        let (answer, mut out) = client.send_request(request, false).expect("sent");
        out.send_data(body.into(), true).expect("sent");
        collect(answer.await.expect("an answer").into_body()).await.len()
    }

    async fn stream(&self, items: u64, size: usize) -> u64 {
        let mut client = self.0.clone().ready().await.expect("a connection");
        let uri = format!("http://localhost/stream/{items}/{size}");
        let request = Request::post(uri).body(()).expect("a request");
        let (answer, _) = client.send_request(request, true).expect("sent");
        let mut body = answer.await.expect("an answer").into_body();
        let mut bytes = 0;
        while let Some(chunk) = body.data().await {
            let chunk = chunk.expect("data");
            let _ = body.flow_control().release_capacity(chunk.len());
            bytes += chunk.len() as u64;
        }
        bytes / size as u64
    }
}

async fn handle(request: Request<h2::RecvStream>, mut respond: h2::server::SendResponse<Bytes>) {
    let path = request.uri().path().to_owned();
    let Some(numbers) = path.strip_prefix("/stream/") else {
        let body = collect(request.into_body()).await;
        let mut out = respond.send_response(Response::new(()), false).expect("sent");
        let _ = out.send_data(body, true);
        return;
    };
    let mut numbers = numbers.split('/').map(|n| n.parse().expect("a number"));
    let (items, size): (usize, usize) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let filler = body(size);
    let mut out = respond.send_response(Response::new(()), false).expect("sent");
    for index in 0..items {
        out.reserve_capacity(size);
        while out.capacity() < size {
            if std::future::poll_fn(|cx| out.poll_capacity(cx)).await.is_none() {
                return;
            }
        }
        out.send_data(filler.clone().into(), index + 1 == items).expect("sent");
    }
}

struct H2;

impl Peer for H2 {
    type Client = Caller;

    async fn serve(stream: TcpStream) {
        let server = h2::server::Builder::new()
            .initial_window_size(4 << 20)
            .initial_connection_window_size(16 << 20)
            .max_frame_size(1 << 20)
            .max_concurrent_streams(1_024)
            .handshake(stream);
        let mut server = server.await.expect("a handshake");
        while let Some(Ok((request, respond))) = server.accept().await {
            tokio::spawn(handle(request, respond));
        }
    }

    async fn connect(stream: TcpStream) -> Caller {
        let (client, connection) = h2::client::Builder::new()
            .initial_window_size(4 << 20)
            .initial_connection_window_size(16 << 20)
            .max_frame_size(1 << 20)
            .handshake(stream)
            .await
            .expect("a handshake");
        tokio::spawn(connection);
        Caller(client)
    }
}

fn main() {
    harness::peer::<H2>();
}
