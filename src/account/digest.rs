//! The hash by which processes that share an account name what they share: the same everywhere, and telling nothing of what
//! it was made of. Knows no store.

use std::hash::Hasher;

use sha2::{Digest as _, Sha256};

/// SHA-256, cut to what a lane's key holds. What a lane is told by may be a credential, which is not to be found out from a
/// key of Redis.
#[derive(Debug, Clone)]
pub(crate) struct Digest(Sha256);

impl Digest {
    /// Of one account: another one's lanes have other names.
    pub(crate) fn of(account: &str) -> Self {
        let mut digest = Sha256::new();
        digest.update(b"reqwest-ai-retry lane 1\0");
        digest.update(account.as_bytes());
        digest.update([0xff]);
        Self(digest)
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    // numbers as bytes, which are not the same on every machine
    fn write_u16(&mut self, number: u16) {
        self.write(&number.to_le_bytes());
    }

    fn write_u32(&mut self, number: u32) {
        self.write(&number.to_le_bytes());
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        digest
            .iter()
            .take(8)
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hash;

    use super::*;

    fn of(account: &str, what: impl Hash) -> u64 {
        let mut digest = Digest::of(account);
        what.hash(&mut digest);
        digest.finish()
    }

    /// Were it another one day, two versions of a program would not know each other's lanes.
    #[test]
    fn a_name_is_the_same_everywhere() {
        let lane = || ("https", Some("api.example.com"), Some(443u16), "model");
        assert_eq!(of("default", lane()), of("default", lane()));
        assert_ne!(of("default", lane()), of("other", lane()));
        assert_eq!(of("default", "model"), MODEL);
    }

    const MODEL: u64 = 4_941_479_294_371_956_071;
}
