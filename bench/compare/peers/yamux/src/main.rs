//! yamux: one stream per request, `[u32 length][body]` both ways.

use futures::io::BufReader;
use futures::{AsyncReadExt, AsyncWriteExt};
use harness::{Peer, body};
use std::future::poll_fn;
use std::task::Poll;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_util::compat::TokioAsyncReadCompatExt;
use yamux::{Config, Connection, Mode, Stream};

fn config() -> Config {
    let mut config = Config::default();
    config.set_max_num_streams(512);
    config.set_split_send_size(256 << 10);
    config
}

async fn handle(mut stream: Stream) -> std::io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    if length == [255; 4] {
        let (mut items, mut size) = ([0; 8], [0; 4]);
        stream.read_exact(&mut items).await?;
        stream.read_exact(&mut size).await?;
        let item = [&size[..], &body(u32::from_le_bytes(size) as usize)].concat();
        let mut out = Vec::with_capacity(128 << 10);
        for _ in 0..u64::from_le_bytes(items) {
            out.extend_from_slice(&item);
            if out.len() > 64 << 10 {
                stream.write_all(&out).await?;
                out.clear();
            }
        }
        stream.write_all(&out).await?;
        return stream.close().await;
    }
    let mut echo = vec![0; 4 + u32::from_le_bytes(length) as usize];
    echo[..4].copy_from_slice(&length);
    stream.read_exact(&mut echo[4..]).await?;
    stream.write_all(&echo).await?;
    stream.close().await
}

#[derive(Clone)]
struct Caller(mpsc::UnboundedSender<oneshot::Sender<Stream>>);

impl Caller {
    async fn open(&self) -> Stream {
        let (sender, receiver) = oneshot::channel();
        self.0.send(sender).expect("a connection");
        receiver.await.expect("a stream")
    }
}

impl harness::Client for Caller {
    async fn call(&self, body: Vec<u8>) -> usize {
        let mut stream = self.open().await;
        stream.write_all(&[&(body.len() as u32).to_le_bytes()[..], &body].concat()).await.expect("written");
        let mut length = [0; 4];
        stream.read_exact(&mut length).await.expect("read");
        let mut echo = vec![0; u32::from_le_bytes(length) as usize];
        stream.read_exact(&mut echo).await.expect("read");
        let _ = stream.close().await;
        echo.len()
    }

    async fn stream(&self, items: u64, size: usize) -> u64 {
        let mut stream = self.open().await;
        let ask = [&[255; 4][..], &items.to_le_bytes(), &(size as u32).to_le_bytes()].concat();
        stream.write_all(&ask).await.expect("written");
        let mut reader = BufReader::with_capacity(64 << 10, stream);
        let (mut got, mut length) = (0, [0; 4]);
        while reader.read_exact(&mut length).await.is_ok() {
            let mut item = vec![0; u32::from_le_bytes(length) as usize];
            reader.read_exact(&mut item).await.expect("read");
            got += 1;
        }
        got
    }
}

struct Yamux;

impl Peer for Yamux {
    type Client = Caller;

    async fn serve(stream: TcpStream) {
        let mut connection = Connection::new(stream.compat(), config(), Mode::Server);
        while let Some(Ok(stream)) = poll_fn(|cx| connection.poll_next_inbound(cx)).await {
            tokio::spawn(handle(stream));
        }
    }

    async fn connect(stream: TcpStream) -> Caller {
        let (sender, mut wanted) = mpsc::unbounded_channel::<oneshot::Sender<Stream>>();
        let mut connection = Connection::new(stream.compat(), config(), Mode::Client);
        let (mut want, mut open) = (None::<oneshot::Sender<Stream>>, true);
        tokio::spawn(poll_fn(move |cx| {
            loop {
                if want.is_none() && open {
                    match wanted.poll_recv(cx) {
                        Poll::Ready(Some(next)) => want = Some(next),
                        Poll::Ready(None) => open = false,
                        Poll::Pending => {}
                    }
                }
                if want.is_some()
                    && let Poll::Ready(made) = connection.poll_new_outbound(cx)
                {
                    let Ok(stream) = made else { return Poll::Ready(()) };
                    let _ = want.take().map(|want| want.send(stream));
                    continue;
                }
                if !open && want.is_none() {
                    return Poll::Ready(());
                }
                match connection.poll_next_inbound(cx) {
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        }));
        Caller(sender)
    }
}

fn main() {
    harness::peer::<Yamux>();
}
