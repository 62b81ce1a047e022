//! What was counted: requests and hits, by number and by bytes.

/// Requests and hits. Hits are plain hits: what was asked for was there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many requests were counted.
    pub requests: u64,
    /// How many of them hit.
    pub hits: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes of the hits.
    pub hit_bytes: u64,
}

impl Tally {
    /// Counts one request.
    pub fn count(&mut self, hit: bool, bytes: u32) {
        self.requests += 1;
        self.hits += u64::from(hit);
        self.bytes += u64::from(bytes);
        self.hit_bytes += u64::from(bytes) * u64::from(hit);
    }

    /// The share of requests that hit; 0 where nothing was asked.
    pub fn hit_ratio(&self) -> f64 {
        ratio(self.hits, self.requests)
    }

    /// The share of bytes that hit; 0 where nothing was asked.
    pub fn byte_hit_ratio(&self) -> f64 {
        ratio(self.hit_bytes, self.bytes)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_shares_of_requests_and_of_bytes() {
        let mut tally = Tally::default();
        assert_eq!((tally.hit_ratio(), tally.byte_hit_ratio()), (0.0, 0.0));
        tally.count(true, 30);
        tally.count(false, 10);
        assert_eq!((tally.hit_ratio(), tally.byte_hit_ratio()), (0.5, 0.75));
    }
}
