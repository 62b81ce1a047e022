//! Certificates and keys in PEM files, read with a bound. What is wrong is said with the file's name, never with its content.

use super::TlsConfig;
use fodder_core::{Error, Result};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{fs::File, io::Read, path::Path};

/// The largest file.
const MAX_BYTES: u64 = 4 << 20;

/// What stands in the three files.
pub(super) struct Contents {
    pub(super) cert: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) ca: Vec<u8>,
}

impl Contents {
    pub(super) fn read(config: &TlsConfig) -> Result<Self> {
        Ok(Self { cert: bytes(&config.cert)?, key: bytes(&config.key)?, ca: bytes(&config.ca)? })
    }

    /// The same for the same contents.
    pub(super) fn print(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for part in [&self.cert, &self.key, &self.ca] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        hasher.finalize()
    }
}

/// The bytes of a file.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| Error::io("read", path, &error);
    let (mut bytes, file) = (Vec::new(), File::open(path).map_err(failed)?);
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 <= MAX_BYTES {
        true => Ok(bytes),
        false => Err(Error::Invalid(format!("{} is too large for certificates", path.display()))),
    }
}

/// The certificates of a file, at least one.
pub(crate) fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| Error::Invalid(format!("{} is no certificate in PEM: {error}", path.display())))?;
    match all.is_empty() {
        true => Err(Error::Invalid(format!("there is no certificate in {}: it must be in PEM", path.display()))),
        false => Ok(all),
    }
}

/// The private key of a file.
pub(crate) fn private_key(pem: &[u8], path: &Path) -> Result<PrivateKeyDer<'static>> {
    // What the parser says may hold what it read.
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| {
        Error::Invalid(format!("there is no private key in {}: it must be in PEM and not encrypted", path.display()))
    })
}

/// The authorities of a file.
pub(crate) fn authorities(pem: &[u8], path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for one in certificates(pem, path)? {
        roots.add(one).map_err(|error| {
            Error::Invalid(format!("a certificate in {} cannot be an authority's: {error}", path.display()))
        })?;
    }
    Ok(roots)
}
