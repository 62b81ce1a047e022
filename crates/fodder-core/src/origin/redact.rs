//! Takes credentials out of URIs and of texts that may hold URIs. Everything that is shown passes through here.

/// What stands in a shown URI where a secret was.
pub const REDACTED: &str = "REDACTED";

/// Parts of names of query parameters whose values are secrets: presigned URLs of S3, GCS and OSS, SAS tokens of Azure,
/// and what people call such things.
const SECRET: [&str; 12] =
    ["sig", "token", "secret", "key", "credential", "password", "passwd", "pwd", "auth", "sas", "session", "jwt"];

/// Whether the value of a query parameter must not be shown.
pub(super) fn is_secret(parameter: &str) -> bool {
    let name = parameter.to_ascii_lowercase();
    SECRET.iter().any(|part| name.contains(part))
}

/// A text without the credentials in its URIs: `//user:password@` and values of secret query parameters.
pub(super) fn scrub(text: &str) -> String {
    parameters(&userinfo(text))
}

fn userinfo(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        clean.push_str(before);
        let end = after.find(|c: char| c.is_whitespace() || "/?#\"'<>".contains(c)).unwrap_or(after.len());
        // In `abfs://container@account` no secret stands before the @, unless there is a colon.
        let container = ["abfs", "abfss", "az"].iter().any(|scheme| before[..at].ends_with(scheme));
        rest = match after[..end].rfind('@') {
            Some(at) if !container || after[..at].contains(':') => {
                clean.push_str(REDACTED);
                &after[at..]
            }
            _ => after,
        };
    }
    clean + rest
}

fn parameters(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(equals) = rest.find('=') {
        let (before, after) = rest.split_at(equals + 1);
        clean.push_str(before);
        rest = after;
        let name = before[..equals].rsplit(|c: char| !(c.is_alphanumeric() || "-_.%".contains(c))).next();
        if name.is_some_and(is_secret) {
            let end = after.find(|c: char| c.is_whitespace() || "&#\"'<>,;)".contains(c)).unwrap_or(after.len());
            if end > 0 {
                clean.push_str(REDACTED);
            }
            rest = &after[end..];
        }
    }
    clean + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_uris_are_replaced_and_the_rest_stays() {
        let cases = [
            ("s3://KEY:SECRET@bucket/prefix", "s3://REDACTED@bucket/prefix"),
            ("https://ghp_token@host/f", "https://REDACTED@host/f"),
            ("abfs://container@account.dfs.core.windows.net/a", "abfs://container@account.dfs.core.windows.net/a"),
            (
                "GET https://h/f?X-Amz-Signature=abc&X-Amz-Date=1&versionId=2 failed",
                "GET https://h/f?X-Amz-Signature=REDACTED&X-Amz-Date=1&versionId=2 failed",
            ),
            ("https://a.blob/x?sv=1&sig=Zm9v%3D&se=2", "https://a.blob/x?sv=1&sig=REDACTED&se=2"),
            ("throttled:latency=1ms:http://u:p@h/?token=t", "throttled:latency=1ms:http://REDACTED@h/?token=REDACTED"),
            ("s3://bucket/a=b/c?region=eu", "s3://bucket/a=b/c?region=eu"),
        ];
        for (text, clean) in cases {
            assert_eq!(scrub(text), clean);
        }
    }
}
