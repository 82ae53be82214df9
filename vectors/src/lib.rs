//! Recorded wire vectors of the hostwire protocol, their loader and their replay.
