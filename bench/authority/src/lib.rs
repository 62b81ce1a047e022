//! Certificates for tests and benchmarks: an authority that vouches for nodes, and certificates that are wrong in some way.
//! Nothing here is for use: keys are drawn anew each time and are gone with the test.

#![allow(clippy::unwrap_used, reason = "only tests and benchmarks use this")]

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Somebody who vouches for nodes.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its private key, in PEM.
#[derive(Clone)]
pub struct Issued {
    /// The certificate.
    pub cert: String,
    /// The key.
    pub key: String,
}

/// Where a node finds its certificate, its key, and whom to believe.
#[derive(Debug, Clone)]
pub struct Files {
    /// The certificate.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
    /// The authorities.
    pub ca: PathBuf,
}

fn named(name: &str, addresses: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(addresses.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    /// A new one.
    pub fn new(name: &str) -> Self {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Its own certificate, in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for somebody at these IP addresses and DNS names.
    pub fn issue(&self, name: &str, addresses: &[&str]) -> Issued {
        self.sign(&named(name, addresses))
    }

    /// A certificate whose time is over.
    pub fn issue_expired(&self, name: &str, addresses: &[&str]) -> Issued {
        let mut params = named(name, addresses);
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Issued {
        let key = KeyPair::generate().unwrap();
        Issued { cert: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }
}

impl Issued {
    /// One that nobody but its owner vouches for.
    pub fn self_signed(name: &str, addresses: &[&str]) -> Self {
        let key = KeyPair::generate().unwrap();
        Self { cert: named(name, addresses).self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    }

    /// Writes it into a directory, with the authorities to believe, each file in one step.
    pub fn write(&self, dir: &Path, ca: &str) -> Files {
        fs::create_dir_all(dir).unwrap();
        let put = |name: &str, text: &str| {
            let (path, fresh) = (dir.join(name), dir.join(format!("{name}.new")));
            fs::write(&fresh, text).unwrap();
            fs::rename(&fresh, &path).unwrap();
            path
        };
        Files { cert: put("node.pem", &self.cert), key: put("node.key", &self.key), ca: put("ca.pem", ca) }
    }
}
