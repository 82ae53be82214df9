//! Two hostwire cores in memory: byte pipes, cuts, a virtual clock.
