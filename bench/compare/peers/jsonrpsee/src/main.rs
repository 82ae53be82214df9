//! jsonrpsee over WebSocket. The body travels as text in JSON, which needs no encoding: the best case for it.

use harness::{Args, Rt, block_on, body, ready};
use jsonrpsee::core::RpcResult;
use jsonrpsee::core::client::{Client, ClientT, SubscriptionClientT};
use jsonrpsee::server::{RpcModule, Server, ServerConfig};
use jsonrpsee::ws_client::WsClientBuilder;
use jsonrpsee::{SubscriptionMessage, rpc_params};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
struct Caller(Arc<Client>);

impl harness::Client for Caller {
    async fn call(&self, body: Vec<u8>) -> usize {
        let text = String::from_utf8(body).expect("text");
        let echo: String = self.0.request("echo", rpc_params![text]).await.expect("an answer");
        echo.len()
    }

    async fn stream(&self, items: u64, size: usize) -> u64 {
        let mut items_left = items;
        let mut stream =
            self.0.subscribe::<String, _>("items", rpc_params![items, size], "stop").await.expect("a stream");
        while items_left > 0 {
            assert_eq!(stream.next().await.expect("an item").expect("text").len(), size);
            items_left -= 1;
        }
        items
    }
}

async fn serve() {
    let config = ServerConfig::builder()
        .ws_only()
        .set_tcp_no_delay(true)
        .max_request_body_size(32 << 20)
        .max_response_body_size(32 << 20)
        .set_message_buffer_capacity(1_024)
        .build();
    let server = Server::builder().set_config(config).build(("127.0.0.1", 0)).await.expect("bound");
    let mut module = RpcModule::new(());
    let echo = module
        .register_async_method("echo", |params, _, _| async move { RpcResult::Ok(params.one::<String>()?) });
    echo.expect("registered");
    let items = module.register_subscription("items", "item", "stop", |params, pending, _, _| async move {
        let (items, size): (u64, usize) = params.parse().expect("two numbers");
        let sink = pending.accept().await?;
        let text = String::from_utf8(body(size)).expect("text");
        for _ in 0..items {
            let item = jsonrpsee::core::to_json_raw_value(&text)?;
            sink.send(SubscriptionMessage::from(item)).await?;
        }
        tokio::time::sleep(Duration::from_secs(2)).await; // what is left has to be read
        Ok(())
    });
    items.expect("registered");
    ready(server.local_addr().expect("an address").port());
    server.start(module).stopped().await;
}

async fn connect(port: u16) -> Caller {
    let client = WsClientBuilder::default()
        .set_tcp_no_delay(true)
        .max_request_size(32 << 20)
        .max_response_size(32 << 20)
        .max_concurrent_requests(4_096)
        .max_buffer_capacity_per_subscription(200_000)
        .build(format!("ws://127.0.0.1:{port}"))
        .await;
    Caller(Arc::new(client.expect("connected")))
}

async fn go(rt: Rt, args: Args) {
    if args.role == "server" {
        serve().await;
    } else {
        let port = args.number("port", 0);
        harness::run(rt, &args, || connect(port)).await.print();
    }
}

fn main() {
    let args = Args::of_process();
    let name = args.text("rt", "ct").to_owned();
    block_on(&name, move |rt| go(rt, args));
}
