//! Nothing but a place for `chaos-child`, the program that misbehaves on request, `child-peer`, which speaks the protocol over its input and
//! output, and for the tests that run them.
