//! Nothing but a place for `chaos-child`, the program that misbehaves on request, and for the tests that run it.
