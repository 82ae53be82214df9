//! The main function of a peer: tokio, TCP, nothing of its own.

use crate::{Args, Client, block_on, load};
use std::future::Future;
use std::net::Ipv4Addr;
use tokio::net::{TcpListener, TcpStream};

/// A peer that is compared with.
pub trait Peer {
    /// Its connected client.
    type Client: Client;

    /// Serves a connection to its end.
    fn serve(stream: TcpStream) -> impl Future<Output = ()> + Send + 'static;
    /// Makes a client of a connection.
    fn connect(stream: TcpStream) -> impl Future<Output = Self::Client> + Send;
}

/// Runs it.
///
/// # Panics
/// If anything fails.
pub fn peer<P: Peer>() {
    let args = Args::of_process();
    let name = args.text("rt", "ct").to_owned();
    block_on(&name, |rt| async move {
        if args.role == "server" {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bound");
            crate::ready(listener.local_addr().expect("an address").port());
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("set");
                rt.detach(P::serve(stream));
            }
            return;
        }
        let port = args.number("port", 0);
        let connect = || async {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("connected");
            stream.set_nodelay(true).expect("set");
            P::connect(stream).await
        };
        load::run(rt, &args, connect).await.print();
    });
}
