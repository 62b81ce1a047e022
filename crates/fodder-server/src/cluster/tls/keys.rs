//! What connections are made and taken with, from one state of the files.

use super::{TlsConfig, check::ByAuthority, file};
use fodder_core::{Error, Result};
use rustls::{
    CertificateError, ClientConfig, ServerConfig,
    client::Resumption,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, UnixTime},
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
    version::TLS13,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// How long before its end a certificate is warned of.
const SOON: Duration = Duration::from_secs(7 * 24 * 3600);

static GENERATION: AtomicU64 = AtomicU64::new(1);

/// What connections are made and taken with.
pub(super) struct Keys {
    pub(super) generation: u64,
    /// Of the contents that this was made from.
    pub(super) print: blake3::Hash,
    pub(super) server: Arc<ServerConfig>,
    pub(super) client: Arc<ClientConfig>,
    /// Who looks at the certificates of those who connect.
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    chain: Vec<CertificateDer<'static>>,
}

/// The one provider of cryptography that is built in.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

impl Keys {
    pub(super) fn new(config: &TlsConfig, contents: &file::Contents) -> Result<Self> {
        let chain = file::certificates(&contents.cert, &config.cert)?;
        let key = file::private_key(&contents.key, &config.key)?;
        let roots = Arc::new(file::authorities(&contents.ca, &config.ca)?);
        let refused = |error: rustls::Error| {
            let (cert, key) = (config.cert.display(), config.key.display());
            Error::Invalid(format!("the certificate in {cert} and the key in {key} cannot be used together: {error}"))
        };
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider())
            .build()
            .map_err(|error| Error::Invalid(format!("{} cannot be used: {error}", config.ca.display())))?;
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(refused)?
            .with_client_cert_verifier(Arc::clone(&verifier))
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(refused)?;
        // A certificate is looked at on every connection.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(refused)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ByAuthority::new(roots)))
            .with_client_auth_cert(chain.clone(), key)
            .map_err(refused)?;
        client.resumption = Resumption::disabled();
        let keys = Self {
            generation: GENERATION.fetch_add(1, Ordering::Relaxed),
            print: contents.print(),
            server: Arc::new(server),
            client: Arc::new(client),
            verifier,
            chain,
        };
        match keys.standing(Duration::ZERO) {
            Ok(()) => Ok(keys),
            Err(error) if is_expired(&error) => Ok(keys),
            Err(error) => Err(Error::Invalid(format!(
                "the node's own certificate in {} is not vouched for by {}, so no other node would believe it: {error}",
                config.cert.display(),
                config.ca.display()
            ))),
        }
    }

    /// Whether others will believe this node's certificate in a while.
    fn standing(&self, from_now: Duration) -> Result<(), rustls::Error> {
        let (own, between) = self.chain.split_first().expect("at least one was read");
        let then = UnixTime::since_unix_epoch(Duration::from_secs(UnixTime::now().as_secs()) + from_now);
        self.verifier.verify_client_cert(own, between, then).map(drop)
    }

    /// Whether its time is over.
    pub(super) fn has_expired(&self) -> bool {
        self.standing(Duration::ZERO).is_err_and(|error| is_expired(&error))
    }

    /// Says so if its time is over, or soon will be.
    pub(super) fn warn(&self, config: &TlsConfig) {
        let cert = config.cert.display();
        if self.has_expired() {
            tracing::error!(%cert, "the node's certificate has expired: other nodes do not believe it; put a new one there");
        } else if self.standing(SOON).is_err() {
            tracing::warn!(%cert, "the node's certificate expires within a week: put a new one there");
        }
    }
}

fn is_expired(error: &rustls::Error) -> bool {
    use CertificateError::{Expired, ExpiredContext};
    matches!(error, rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{super::Tls, *};
    use fodder_authority::{Authority, Issued};

    /// Why these files cannot be used.
    fn refused(issued: &Issued, ca: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let files = issued.write(dir.path(), ca);
        let config = TlsConfig { cert: files.cert, key: files.key, ca: files.ca };
        let text = Tls::read(&config).unwrap_err().to_string();
        for line in issued.key.lines().filter(|line| line.len() > 20 && !line.starts_with('-')) {
            assert!(!text.contains(line), "{text}");
        }
        text
    }

    #[test]
    fn files_that_cannot_be_used_are_refused_with_a_sentence_and_without_the_key() {
        let (authority, other) = (Authority::new("cluster"), Authority::new("other"));
        let good = authority.issue("node", &[]);
        let with = |cert: &str, key: &str| Issued { cert: cert.into(), key: key.into() };
        for (issued, ca, why) in [
            (with("", &good.key), authority.pem(), "no certificate in"),
            (with(&good.key, &good.key), authority.pem(), "no certificate in"),
            (with(&good.cert, ""), authority.pem(), "no private key in"),
            (with(&good.cert, &good.key[..good.key.len() / 2]), authority.pem(), "no private key in"),
            (with(&good.cert, &other.issue("node", &[]).key), authority.pem(), "cannot be used together"),
            (good.clone(), "", "no certificate in"),
            (
                good.clone(),
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "cannot be an authority's",
            ),
            (good.clone(), other.pem(), "is not vouched for by"),
            (Issued::self_signed("node", &[]), authority.pem(), "is not vouched for by"),
        ] {
            let text = refused(&issued, ca);
            assert!(text.contains(why), "{text}");
        }
    }

    #[test]
    fn an_expired_certificate_is_warned_of_and_never_takes_the_place_of_another() {
        let authority = Authority::new("cluster");
        let dir = tempfile::tempdir().unwrap();
        let expired = authority.issue_expired("node", &[]);
        let files = expired.write(dir.path(), authority.pem());
        let config = TlsConfig { cert: files.cert, key: files.key, ca: files.ca };
        let tls = Tls::read(&config).unwrap();
        assert!(tls.keys.load().has_expired());
        authority.issue("node", &[]).write(dir.path(), authority.pem());
        tls.reload().unwrap();
        assert!(!tls.keys.load().has_expired());
        let generation = tls.generation();
        expired.write(dir.path(), authority.pem());
        assert!(tls.reload().unwrap_err().to_string().contains("has expired already"));
        assert_eq!(tls.generation(), generation);
    }
}
