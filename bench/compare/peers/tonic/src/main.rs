//! tonic, unary and server streaming, windows wide open.

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use harness::{Peer, body};
use hyper_util::rt::TokioIo;
use std::pin::Pin;
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

#[derive(Clone, PartialEq, prost::Message)]
pub struct Blob {
    #[prost(bytes = "bytes", tag = "1")]
    pub body: Bytes,
    #[prost(uint64, tag = "2")]
    pub items: u64,
    #[prost(uint32, tag = "3")]
    pub size: u32,
}

#[allow(clippy::all, clippy::pedantic)]
mod service {
    include!(concat!(env!("OUT_DIR"), "/bench.Echo.rs"));
}
use service::echo_client::EchoClient;
use service::echo_server::{Echo, EchoServer};

struct Service;

#[tonic::async_trait]
impl Echo for Service {
    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        Ok(Response::new(request.into_inner()))
    }

    type SourceStream = Pin<Box<dyn Stream<Item = Result<Blob, Status>> + Send>>;

    async fn source(&self, request: Request<Blob>) -> Result<Response<Self::SourceStream>, Status> {
        let Blob { items, size, .. } = request.into_inner();
        let filler = body(size as usize);
        let item = move |_| Ok(Blob { body: filler.clone().into(), items: 0, size: 0 });
        Ok(Response::new(Box::pin(stream::iter((0..items).map(item)))))
    }
}

#[derive(Clone)]
struct Caller(EchoClient<Channel>);

impl harness::Client for Caller {
    async fn call(&self, body: Vec<u8>) -> usize {
        let mut client = self.0.clone();
        let blob = Blob { body: body.into(), items: 0, size: 0 };
        client.echo(blob).await.expect("an answer").into_inner().body.len()
    }

    async fn stream(&self, items: u64, size: usize) -> u64 {
        let mut client = self.0.clone();
        let blob = Blob { body: Bytes::new(), items, size: size as u32 };
        let mut items = client.source(blob).await.expect("an answer").into_inner();
        let mut got = 0;
        while let Some(item) = items.next().await {
            assert_eq!(item.expect("an item").body.len(), size);
            got += 1;
        }
        got
    }
}

struct Tonic;

impl Peer for Tonic {
    type Client = Caller;

    async fn serve(stream: TcpStream) {
        let echo =
            EchoServer::new(Service).max_decoding_message_size(16 << 20).max_encoding_message_size(16 << 20);
        let server = Server::builder()
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(16 << 20)
            .max_frame_size(1 << 20)
            .add_service(echo);
        let one = stream::iter([Ok::<_, std::io::Error>(stream)]).chain(stream::pending());
        let _ = server.serve_with_incoming(one).await;
    }

    async fn connect(stream: TcpStream) -> Caller {
        let mut stream = Some(TokioIo::new(stream));
        let connector = tower::service_fn(move |_: http::Uri| {
            let stream = stream.take().ok_or(std::io::ErrorKind::NotConnected);
            async move { stream.map_err(std::io::Error::from) }
        });
        let channel = Endpoint::from_static("http://localhost")
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(16 << 20)
            .buffer_size(4_096)
            .connect_with_connector(connector)
            .await
            .expect("connected");
        let client = EchoClient::new(channel);
        Caller(client.max_decoding_message_size(16 << 20).max_encoding_message_size(16 << 20))
    }
}

fn main() {
    harness::peer::<Tonic>();
}
