//! Takes up what changes in the files. What cannot be used is said once, and what was in use stays in use.

use super::{Tls, file::Contents, keys::Keys};
use fodder_core::{Error, Result};
use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// How often a certificate that expires is spoken of.
const REMIND: Duration = Duration::from_secs(6 * 3600);

impl Tls {
    /// Looks at the files, and uses what they say from now on, for every connection that is made then. Connections that
    /// are there stay.
    pub fn reload(&self) -> Result<()> {
        *self.refused.lock() = None;
        self.look()
    }

    /// The same, silent about what was refused before.
    fn look(&self) -> Result<()> {
        let contents = Contents::read(&self.config)?;
        let print = contents.print();
        let mut refused = self.refused.lock();
        if self.keys.load().print == print || refused.replace(print) == Some(print) {
            return Ok(());
        }
        let keys = Keys::new(&self.config, &contents)?;
        if keys.has_expired() {
            let cert = self.config.cert.display();
            return Err(Error::Invalid(format!("the new certificate in {cert} has expired already")));
        }
        *refused = None;
        keys.warn(&self.config);
        self.keys.store(Arc::new(keys));
        tracing::info!(cert = %self.config.cert.display(), "new certificates are in use");
        Ok(())
    }

    /// Reloads whenever the files change, as long as somebody uses this.
    pub async fn follow(self: Arc<Self>) {
        let this = Arc::downgrade(&self);
        drop(self);
        let (mut reminded, mut said) = (Instant::now(), String::new());
        loop {
            tokio::time::sleep(LOOK).await;
            let looked = {
                let this = Weak::clone(&this);
                tokio::task::spawn_blocking(move || Some(this.upgrade()?.look())).await
            };
            match looked {
                Ok(Some(Ok(()))) => said.clear(),
                Ok(Some(Err(error))) => {
                    let text = error.to_string();
                    if text != said {
                        tracing::warn!(%error, "the certificates that are in use stay in use");
                        said = text;
                    }
                }
                Ok(None) | Err(_) => return,
            }
            if reminded.elapsed() > REMIND {
                let Some(this) = this.upgrade() else { return };
                this.keys.load().warn(&this.config);
                reminded = Instant::now();
            }
        }
    }
}
