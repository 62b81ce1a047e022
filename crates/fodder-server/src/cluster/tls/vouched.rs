//! Somebody whose certificate was in order when it connected. It is looked at again when the authorities have changed, and
//! from time to time: a connection does not outlive the trust in it.

use super::Tls;
use parking_lot::Mutex;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a certificate that was in order is taken to be.
const FRESH: Duration = Duration::from_secs(60);

/// A node on the other side of a connection.
pub(crate) struct Vouched {
    tls: Arc<Tls>,
    chain: Vec<CertificateDer<'static>>,
    /// With which authorities the certificate was in order, and when.
    checked: Mutex<(u64, Instant)>,
}

impl Vouched {
    pub(super) fn new(tls: Arc<Tls>, generation: u64, chain: Vec<CertificateDer<'static>>) -> Self {
        Self { tls, chain, checked: Mutex::new((generation, Instant::now())) }
    }

    /// Whether its certificate still is in order.
    pub(crate) fn holds(&self) -> bool {
        let keys = self.tls.keys.load();
        let mut checked = self.checked.lock();
        if checked.0 == keys.generation && checked.1.elapsed() < FRESH {
            return true;
        }
        let Some((own, between)) = self.chain.split_first() else { return false };
        let in_order = keys.verifier.verify_client_cert(own, between, UnixTime::now()).is_ok();
        if in_order {
            *checked = (keys.generation, Instant::now());
        }
        in_order
    }
}

impl fmt::Debug for Vouched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vouched")
    }
}
