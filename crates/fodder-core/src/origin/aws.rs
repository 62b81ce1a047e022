//! Credentials, region and endpoint as AWS's own tools find them: environment, profiles in ~/.aws (with
//! credential_process), SSO, web identity, container, instance. Nothing is asked for until a request needs it.

use super::failure::NoCredentials;
use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use aws_config::{
    BehaviorVersion, Region, default_provider::credentials::DefaultCredentialsChain,
    environment::EnvironmentVariableRegionProvider, meta::region::RegionProviderChain,
    profile::ProfileFileRegionProvider,
};
use aws_credential_types::provider::{ProvideCredentials, error::CredentialsError};
use object_store::{CredentialProvider, Error, Result, aws::AwsCredential};
use std::{
    error::Error as StdError,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::sync::Mutex;

/// Credentials are renewed this long before they expire; until then a failed renewal is only logged.
const RENEW_BEFORE: Duration = Duration::from_secs(300);

/// What the environment and the profile say about where S3 is.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
}

impl Surroundings {
    /// Reads the environment and ~/.aws. Asks no network.
    pub(super) async fn read() -> Self {
        let regions = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
            .or_else(ProfileFileRegionProvider::new());
        let region = regions.region().await;
        let own = std::env::var("AWS_ENDPOINT_URL_S3").ok().filter(|url| !url.is_empty());
        let endpoint = match own {
            Some(url) => Some(url),
            // With a region given, loading the rest contacts nobody.
            None => {
                let loader = aws_config::defaults(BehaviorVersion::latest()).no_credentials();
                loader.region(Region::from_static("us-east-1")).load().await.endpoint_url().map(Into::into)
            }
        };
        Self { region: region.map(|region| region.to_string()), endpoint }
    }
}

/// The chain, with the last credentials it gave.
#[derive(Debug)]
pub(super) struct Chain {
    region: String,
    current: ArcSwapOption<Lent>,
    /// Set by whoever saw a server call the credentials expired.
    expired: Arc<AtomicBool>,
    /// Held by the one who renews. The chain is built anew when its credentials expired early, because it reads
    /// profile files only once.
    provider: Mutex<Option<DefaultCredentialsChain>>,
}

struct Lent {
    credential: Arc<AwsCredential>,
    expiry: Option<SystemTime>,
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lent").field("expiry", &self.expiry).finish_non_exhaustive()
    }
}

impl Lent {
    fn lasts(&self, time: Duration) -> bool {
        self.expiry.is_none_or(|expiry| SystemTime::now() + time < expiry)
    }
}

impl Chain {
    pub(super) fn new(region: String, expired: Arc<AtomicBool>) -> Self {
        Self { region, current: ArcSwapOption::empty(), expired, provider: Mutex::new(None) }
    }

    fn fresh(&self) -> Option<Arc<AwsCredential>> {
        let current = self.current.load();
        let current = current.as_ref().filter(|_| !self.expired.load(Ordering::Relaxed))?;
        current.lasts(RENEW_BEFORE).then(|| Arc::clone(&current.credential))
    }

    async fn renew(&self) -> Result<Arc<AwsCredential>> {
        let mut provider = self.provider.lock().await;
        if let Some(credential) = self.fresh() {
            return Ok(credential);
        }
        if self.expired.swap(false, Ordering::Relaxed) {
            self.current.store(None);
            *provider = None;
        }
        let chain = match &mut *provider {
            Some(chain) => chain,
            none => {
                let region = Region::new(self.region.clone());
                none.insert(DefaultCredentialsChain::builder().region(region).build().await)
            }
        };
        match chain.provide_credentials().await {
            Ok(credentials) => {
                let credential = Arc::new(AwsCredential {
                    key_id: credentials.access_key_id().into(),
                    secret_key: credentials.secret_access_key().into(),
                    token: credentials.session_token().map(Into::into),
                });
                let lent = Lent { credential: Arc::clone(&credential), expiry: credentials.expiry() };
                self.current.store(Some(Arc::new(lent)));
                Ok(credential)
            }
            Err(error) => match self.current.load().as_ref().filter(|lent| lent.lasts(Duration::ZERO)) {
                Some(lent) => {
                    tracing::warn!(error = explain(&error), "cannot renew the AWS credentials yet");
                    Ok(Arc::clone(&lent.credential))
                }
                None => Err(failure(&error)),
            },
        }
    }
}

#[async_trait]
impl CredentialProvider for Chain {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> Result<Arc<AwsCredential>> {
        match self.fresh() {
            Some(credential) => Ok(credential),
            None => self.renew().await,
        }
    }
}

/// A chain that did not answer may do so later; one that has nothing to give will not.
fn failure(error: &CredentialsError) -> Error {
    let text = explain(error);
    let source: Box<dyn StdError + Send + Sync> = match error {
        CredentialsError::ProviderTimedOut(_) => text.into(),
        _ => Box::new(NoCredentials(text)),
    };
    Error::Generic { store: "S3", source }
}

/// The error with its causes: the outermost alone says nothing.
fn explain(error: &CredentialsError) -> String {
    let causes = std::iter::successors(Some(error as &dyn StdError), |&error| error.source());
    let texts: Vec<_> = causes.map(ToString::to_string).collect();
    match error {
        CredentialsError::CredentialsNotLoaded(_) => {
            "found no AWS credentials in the environment, in ~/.aws or on this machine".into()
        }
        _ => format!("cannot get AWS credentials: {}", texts.join(": ")),
    }
}
