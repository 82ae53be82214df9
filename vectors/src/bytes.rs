//! Byte strings of a vector: literal bytes and long fills, which are never spelled out in memory until someone asks.

/// One run of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Fill { byte: u8, count: usize },
}

/// The bytes of one field or of one step. A body of 64 MiB of the same byte takes a few words here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    parts: Vec<Part>,
}

impl Bytes {
    /// Adds literal bytes.
    pub(crate) fn push(&mut self, bytes: Vec<u8>) {
        self.parts.push(Part::Literal(bytes));
    }

    /// Adds `count` times the same byte.
    pub(crate) fn push_fill(&mut self, byte: u8, count: usize) {
        self.parts.push(Part::Fill { byte, count });
    }

    /// Adds all bytes of another one.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.parts.extend(other.parts.iter().cloned());
    }

    /// How many bytes these are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(Part::len).sum()
    }

    /// Whether there is no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes, in memory.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        for part in &self.parts {
            match part {
                Part::Literal(bytes) => all.extend_from_slice(bytes),
                Part::Fill { byte, count } => all.resize(all.len() + count, *byte),
            }
        }
        all
    }

    /// The first bytes, at most so many.
    #[must_use]
    pub fn start(&self, most: usize) -> Vec<u8> {
        let mut all = Vec::new();
        for part in &self.parts {
            let left = most - all.len();
            match part {
                Part::Literal(bytes) => all.extend(bytes.iter().take(left)),
                Part::Fill { byte, count } => all.resize(all.len() + left.min(*count), *byte),
            }
        }
        all
    }

    /// The offset of the first byte at which these and `other` differ, or at which one of them ends.
    #[must_use]
    pub fn first_difference(&self, other: &[u8]) -> Option<usize> {
        let mut rest = other;
        let mut at = 0;
        for part in &self.parts {
            let here = rest.len().min(part.len());
            let (mine, more) = rest.split_at_checked(here)?;
            let same = match part {
                Part::Literal(bytes) => bytes.iter().zip(mine).take_while(|(a, b)| a == b).count(),
                Part::Fill { byte, .. } => mine.iter().take_while(|b| *b == byte).count(),
            };
            at += same;
            if same < part.len() {
                return Some(at);
            }
            rest = more;
        }
        if rest.is_empty() { None } else { Some(at) }
    }
}

impl Part {
    fn len(&self) -> usize {
        match self {
            Self::Literal(bytes) => bytes.len(),
            Self::Fill { count, .. } => *count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    fn sample() -> Bytes {
        let mut bytes = Bytes::default();
        bytes.push(b"ab".to_vec());
        bytes.push_fill(b'c', 3);
        bytes.push(b"d".to_vec());
        bytes
    }

    #[test]
    fn fills_and_literals_are_one_string() {
        assert_eq!(sample().to_vec(), b"abcccd");
        assert_eq!(sample().len(), 6);
        assert!(Bytes::default().is_empty());
    }

    #[test]
    fn the_first_difference_is_found_in_every_part_and_at_both_ends() {
        assert_eq!(sample().first_difference(b"abcccd"), None);
        for (other, at) in [
            ("", 0),
            ("xbcccd", 0),
            ("axcccd", 1),
            ("abcxcd", 3),
            ("abccc", 5),
            ("abcccx", 5),
            ("abcccde", 6),
        ] {
            assert_eq!(sample().first_difference(other.as_bytes()), Some(at), "{other}");
        }
    }
}
