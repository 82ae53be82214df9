#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostwire_fuzz_bodies::header(data));
