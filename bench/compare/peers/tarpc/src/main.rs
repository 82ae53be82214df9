//! tarpc with bincode, its defaults but for the number of calls under way. It has no streams.

use futures::StreamExt;
use harness::Peer;
use serde_bytes::ByteBuf;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::tokio_util::codec::length_delimited::LengthDelimitedCodec;
use tarpc::{client, context, serde_transport};
use tokio::net::TcpStream;

#[tarpc::service]
trait Echo {
    async fn echo(body: ByteBuf) -> ByteBuf;
}

#[derive(Clone)]
struct Service;

impl Echo for Service {
    async fn echo(self, _: context::Context, body: ByteBuf) -> ByteBuf {
        body
    }
}

#[derive(Clone)]
struct Caller(EchoClient);

impl harness::Client for Caller {
    async fn call(&self, body: Vec<u8>) -> usize {
        self.0.echo(context::current(), ByteBuf::from(body)).await.expect("an answer").len()
    }

    async fn stream(&self, _items: u64, _size: usize) -> u64 {
        panic!("it has none")
    }
}

fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(16 << 20).new_codec()
}

struct Tarpc;

impl Peer for Tarpc {
    type Client = Caller;

    async fn serve(stream: TcpStream) {
        let framed = tarpc::tokio_util::codec::Framed::new(stream, codec());
        let channel = BaseChannel::with_defaults(serde_transport::new(framed, Bincode::default()));
        let each = |handler| async {
            tokio::spawn(handler);
        };
        channel.execute(Service.serve()).for_each(each).await;
    }

    async fn connect(stream: TcpStream) -> Caller {
        let framed = tarpc::tokio_util::codec::Framed::new(stream, codec());
        let mut config = client::Config::default();
        config.max_in_flight_requests = 1_024;
        config.pending_request_buffer = 1_024;
        Caller(EchoClient::new(config, serde_transport::new(framed, Bincode::default())).spawn())
    }
}

fn main() {
    harness::peer::<Tarpc>();
}
