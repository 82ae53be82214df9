//! The service by hand, so that nobody needs `protoc`.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let method = |name: &str, route: &str| {
        Method::builder()
            .name(name)
            .route_name(route)
            .input_type("crate::Blob")
            .output_type("crate::Blob")
            .codec_path("tonic_prost::ProstCodec")
    };
    let service = Service::builder()
        .name("Echo")
        .package("bench")
        .method(method("echo", "Echo").build())
        .method(method("source", "Source").server_streaming().build())
        .build();
    Builder::new().compile(&[service]);
}
