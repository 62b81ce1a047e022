//! What is asked of the certificate of a node that is connected to: that an authority vouches for it, that its time has not
//! passed, and that it names the address, if it names any of that kind.
//!
//! Nodes are often known by addresses that nobody knew when the certificate was made. One that names no IP address says
//! nothing about them, and the authority's word is enough; one that names some must name this one. The same goes for DNS
//! names where a name is connected to.

use super::keys::provider;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use std::sync::Arc;

/// Believes whom one of these authorities vouches for.
#[derive(Debug)]
pub(super) struct ByAuthority {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ByAuthority {
    pub(super) fn new(roots: Arc<RootCertStore>) -> Self {
        Self { roots, algorithms: provider().signature_verification_algorithms }
    }
}

impl ServerCertVerifier for ByAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)?;
        verify_name(&certificate, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Compares a name with those of its kind that the certificate has, if it has any.
fn verify_name(certificate: &ParsedCertificate<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    let kind = if matches!(name, ServerName::IpAddress(_)) { "IpAddress(" } else { "DnsName(" };
    match verify_server_name(certificate, name) {
        Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. }))
            if !presented.iter().any(|other| other.starts_with(kind)) =>
        {
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use fodder_authority::{Authority, Issued};
    use rustls::pki_types::pem::PemObject;

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    fn check(authority: &Authority, issued: &Issued, name: &str) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        roots.add(der(authority.pem())).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let verifier = ByAuthority::new(Arc::new(roots));
        verifier.verify_server_cert(&der(&issued.cert), &[], &name, &[], UnixTime::now()).map(drop)
    }

    #[test]
    fn a_certificate_must_name_the_address_if_it_names_any_of_that_kind() {
        let authority = Authority::new("cluster");
        for (named, dialled, good) in [
            (&[][..], "10.0.0.3", true),
            (&[], "node-3.example", true),
            (&["10.0.0.3"], "10.0.0.3", true),
            (&["10.0.0.3", "10.0.0.4"], "10.0.0.4", true),
            (&["10.0.0.3"], "10.0.0.4", false),
            (&["10.0.0.3"], "node-3.example", true),
            (&["10.0.0.3", "node-3.example"], "node-4.example", false),
            (&["10.0.0.3", "node-3.example"], "10.0.0.5", false),
            (&["node-3.example"], "10.0.0.3", true),
            (&["node-3.example"], "node-4.example", false),
            (&["*.fodder.example"], "node-4.fodder.example", true),
            (&["fd00::3"], "fd00::3", true),
            (&["fd00::3"], "fd00::4", false),
            (&["fd00::3"], "10.0.0.3", false),
        ] {
            let checked = check(&authority, &authority.issue("node", named), dialled);
            assert_eq!(checked.is_ok(), good, "{named:?} at {dialled}: {checked:?}");
        }
    }

    #[test]
    fn names_do_not_make_up_for_an_authority() {
        let (authority, other) = (Authority::new("cluster"), Authority::new("cluster"));
        for issued in [
            Issued::self_signed("node", &["10.0.0.3"]),
            other.issue("node", &["10.0.0.3"]),
            authority.issue_expired("node", &["10.0.0.3"]),
        ] {
            check(&authority, &issued, "10.0.0.3").unwrap_err();
        }
    }
}
