//! The hostwire protocol as a pure state machine: bytes in; frames, events, deadlines and bytes out.
