//! How etcd is reached: in plain text or over TLS, as nobody or as a user. Files are read at each connection, so that what
//! changes there is taken up at the next. No password and no token is ever printed.

#[cfg(test)]
mod tests;

use crate::cluster::tls::{
    file::{authorities, bytes, certificates, private_key},
    keys::provider,
    server_name,
};
use fodder_api::etcd::{AuthenticateRequest, auth_client::AuthClient};
use fodder_core::{Error, Result};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::{ClientConfig, version::TLS13};
use serde::{Deserialize, Serialize};
use std::{fmt, io, path::PathBuf, sync::Arc, time::Duration};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use tonic::{
    Code, Request, Response, Status,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint, Uri},
};

/// How long etcd may take to answer.
pub(super) const DEADLINE: Duration = Duration::from_secs(3);

/// How etcd is reached. Without anything: in plain text, as nobody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EtcdConfig {
    /// Certificates of the authorities that vouch for etcd: it is then talked to over TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The certificate to show, if etcd asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// Its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The user to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The file with its password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
}

impl EtcdConfig {
    /// Says in a sentence what is wrong, if something is.
    pub fn check(&self) -> Result<()> {
        let wrong = |text: &str| Err(Error::Invalid(text.into()));
        match self {
            Self { cert: Some(_), key: None, .. } => {
                wrong("cluster.etcd.cert (--etcd-cert) needs its private key in cluster.etcd.key (--etcd-key)")
            }
            Self { key: Some(_), cert: None, .. } => {
                wrong("cluster.etcd.key (--etcd-key) needs its certificate in cluster.etcd.cert (--etcd-cert)")
            }
            Self { ca: None, cert: Some(_), .. } => wrong(
                "cluster.etcd.cert (--etcd-cert) needs TLS: give the authority of the certificate of etcd in cluster.etcd.ca (--etcd-ca)",
            ),
            Self { user: Some(_), password_file: None, .. } => {
                wrong("cluster.etcd.user (--etcd-user) needs cluster.etcd.password_file (--etcd-password-file)")
            }
            Self { user: None, password_file: Some(_), .. } => {
                wrong("cluster.etcd.password_file (--etcd-password-file) needs cluster.etcd.user (--etcd-user)")
            }
            _ => Ok(()),
        }
    }

    /// Whether only those whom etcd knows can have written what is read there.
    pub fn is_guarded(&self) -> bool {
        self.ca.is_some() && (self.cert.is_some() || self.user.is_some())
    }

    /// Reads the files, to find early what is wrong with them.
    pub(crate) fn try_files(&self) -> Result<()> {
        self.client()?;
        self.password().map(drop)
    }

    /// What TLS is made with, if it is.
    pub(crate) fn client(&self) -> Result<Option<Arc<ClientConfig>>> {
        let Some(ca) = &self.ca else { return Ok(None) };
        let refused =
            |error: rustls::Error| Error::Invalid(format!("the certificate for etcd cannot be used: {error}"));
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(refused)?
            .with_root_certificates(authorities(&bytes(ca)?, ca)?);
        let mut client = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => builder
                .with_client_auth_cert(certificates(&bytes(cert)?, cert)?, private_key(&bytes(key)?, key)?)
                .map_err(refused)?,
            _ => builder.with_no_client_auth(),
        };
        client.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Some(Arc::new(client)))
    }

    fn password(&self) -> Result<Option<String>> {
        let Some(path) = &self.password_file else { return Ok(None) };
        let text = String::from_utf8(bytes(path)?)
            .map_err(|_| Error::Invalid(format!("the password in {} is not UTF-8", path.display())))?;
        let text = text.trim_end_matches(['\r', '\n']);
        match text.is_empty() {
            true => Err(Error::Invalid(format!("the password in {} is empty", path.display()))),
            false => Ok(Some(text.to_owned())),
        }
    }
}

/// A connection to etcd, and who this node is there.
#[derive(Clone)]
pub(super) struct Access {
    channel: Channel,
    config: EtcdConfig,
    /// What etcd knows the user by; it runs out.
    token: Arc<Mutex<Option<MetadataValue<Ascii>>>>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Access {
    /// Connects, and logs in if there is a user; or says why not.
    pub(super) async fn open(config: &EtcdConfig, server: &str) -> Result<Self, String> {
        let endpoint = Endpoint::from_shared(format!("http://{server}")).map_err(said_by)?;
        let endpoint = endpoint.connect_timeout(DEADLINE).timeout(DEADLINE);
        let files = config.clone();
        let client = tokio::task::spawn_blocking(move || files.client()).await.map_err(said_by)?.map_err(said_by)?;
        let channel = match client {
            None => endpoint.connect().await.map_err(|error| deepest(&error))?,
            Some(client) => {
                let server = server.to_owned();
                let connector = tower::service_fn(move |_: Uri| {
                    let (client, server) = (Arc::clone(&client), server.clone());
                    async move {
                        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
                        timeout(DEADLINE, greet(client, &server)).await.map_err(late)?
                    }
                });
                endpoint.connect_with_connector(connector).await.map_err(|error| deepest(&error))?
            }
        };
        let access = Self { channel, config: config.clone(), token: Arc::default() };
        access.log_in().await?;
        Ok(access)
    }

    /// A request with what etcd knows the user by.
    pub(super) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &*self.token.lock() {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    pub(super) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Calls, and once more if etcd does not know the user any more.
    pub(super) async fn call<T, R, F>(&self, message: T, call: impl Fn(Channel, Request<T>) -> F) -> Result<R, String>
    where
        T: Clone,
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let answer = match call(self.channel(), self.request(message.clone())).await {
            Err(status) if self.config.user.is_some() && is_forgotten(&status) => {
                self.log_in().await?;
                call(self.channel(), self.request(message)).await
            }
            answer => answer,
        };
        answer.map(Response::into_inner).map_err(|status| status.message().to_owned())
    }

    async fn log_in(&self) -> Result<(), String> {
        let Some(name) = self.config.user.clone() else { return Ok(()) };
        let files = self.config.clone();
        let password = tokio::task::spawn_blocking(move || files.password()).await.map_err(said_by)?;
        let password = password.map_err(said_by)?.unwrap_or_default();
        let answer = AuthClient::new(self.channel()).authenticate(AuthenticateRequest { name, password }).await;
        let token = match answer {
            Ok(answer) => answer.into_inner().token,
            Err(status) if status.message().contains("authentication is not enabled") => {
                tracing::warn!("authentication is not enabled at etcd, so a user and password have no effect");
                return Ok(());
            }
            Err(status) => return Err(format!("etcd refuses this node: {}", status.message())),
        };
        let mut token: MetadataValue<Ascii> = token.parse().map_err(|_| "the token of etcd is not text".to_owned())?;
        token.set_sensitive(true);
        *self.token.lock() = Some(token);
        Ok(())
    }
}

/// Connects over TLS.
async fn greet(
    client: Arc<ClientConfig>,
    server: &str,
) -> io::Result<TokioIo<tokio_rustls::client::TlsStream<TcpStream>>> {
    let stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    Ok(TokioIo::new(TlsConnector::from(client).connect(server_name(server)?, stream).await?))
}

/// Whether the token has run out, or what users may do has changed since it was made.
fn is_forgotten(status: &Status) -> bool {
    let text = status.message();
    status.code() == Code::Unauthenticated
        || ["auth store is old", "user name is empty"].iter().any(|part| text.contains(part))
}

fn said_by(error: impl fmt::Display) -> String {
    error.to_string()
}

/// What is at the bottom of an error, which is where connections say why they failed.
fn deepest(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), deepest)
}
