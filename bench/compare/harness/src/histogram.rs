//! Nanoseconds in 64 steps per power of two: less than 1.6 % off.

/// A histogram of durations.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; 64 * 60], total: 0 }
    }
}

fn place(value: u64) -> usize {
    if value < 64 {
        return value as usize;
    }
    let power = 63 - u64::from(value.leading_zeros());
    ((power - 5) * 64 + ((value >> (power - 6)) & 63)) as usize
}

fn value(place: usize) -> u64 {
    if place < 64 {
        return place as u64;
    }
    (64 + place as u64 % 64) << (place / 64 - 1)
}

impl Histogram {
    /// One more.
    pub fn add(&mut self, nanoseconds: u64) {
        if let Some(count) = self.counts.get_mut(place(nanoseconds)) {
            *count += 1;
            self.total += 1;
        }
    }

    /// All of another's.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
    }

    /// The value that this share of all does not exceed.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        if self.total == 0 { 0 } else { at.map_or(0, value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_within_its_step() {
        for exact in [0, 1, 63, 64, 65, 127, 128, 1_000, 123_456, 9_999_999_999] {
            let near = value(place(exact));
            assert!(near <= exact && exact - near <= exact / 64, "{exact} became {near}");
        }
    }

    #[test]
    fn quantiles_are_values_that_were_added() {
        let mut all = Histogram::default();
        (1..=100).for_each(|n| all.add(n));
        assert_eq!((all.quantile(0.5), all.quantile(0.01), all.quantile(1.0)), (50, 1, 100));
        assert_eq!(Histogram::default().quantile(0.5), 0);
    }
}
