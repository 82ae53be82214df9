//! As much of a handshake as hostwire's: nonces and proofs both ways, then one round trip that selects something.

use crate::frames::Wire;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::future::poll_fn;
use std::io::{self, IoSlice};

const KEY: [u8; 32] = [9; 32];

fn proof(domain: &[u8], ours: &[u8], theirs: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(&KEY).expect("any length");
    for part in [domain, ours, theirs, &[7; 16]] {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

pub async fn read_exact(wire: &mut impl Wire, into: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < into.len() {
        match poll_fn(|cx| wire.poll_read(cx, &mut into[filled..])).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => filled += n,
        }
    }
    Ok(())
}

pub async fn write_all(wire: &mut impl Wire, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = poll_fn(|cx| wire.poll_write(cx, &[IoSlice::new(bytes)])).await?;
        bytes = &bytes[n..];
    }
    Ok(())
}

pub async fn serve(wire: &mut impl Wire) -> io::Result<()> {
    let mut nonce = [0; 32];
    read_exact(wire, &mut nonce).await?;
    let mut answer = [0; 64];
    getrandom::fill(&mut answer[..32]).expect("randomness");
    let mine = proof(b"server", &nonce, &answer[..32]);
    answer[32..].copy_from_slice(&mine);
    write_all(wire, &answer).await?;
    let mut theirs = [0; 64];
    read_exact(wire, &mut theirs).await?;
    assert_eq!(theirs[..32], proof(b"client", &nonce, &answer[..32]));
    write_all(wire, &theirs[32..]).await
}

pub async fn connect(wire: &mut impl Wire) -> io::Result<()> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).expect("randomness");
    write_all(wire, &nonce).await?;
    let mut answer = [0; 64];
    read_exact(wire, &mut answer).await?;
    assert_eq!(answer[32..], proof(b"server", &nonce, &answer[..32]));
    let mut mine = [0; 64];
    mine[..32].copy_from_slice(&proof(b"client", &nonce, &answer[..32]));
    write_all(wire, &mine).await?;
    read_exact(wire, &mut mine[32..]).await
}
