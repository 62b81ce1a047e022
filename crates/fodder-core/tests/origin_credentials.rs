//! AWS credentials as its own tools find them, and that no credential is ever shown.
//!
//! The environment decides, so each case runs in a process of its own: this test program again, told which case.
#![allow(clippy::unwrap_used)]

use fodder_core::{
    Error,
    origin::{Origin, OriginOptions, Patience},
};
use fodder_s3_server::{Fault, Server};
use futures::TryStreamExt;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

const SECRETS: [&str; 4] = ["AKIAPLANTED", "PlantedSecret", "PlantedToken", "hunter2"];

/// Runs a case in a clean environment with only these variables.
fn case(name: &str, home: &Path, variables: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--nocapture", name]).env_clear();
    command.env("HOME", home).env("AWS_EC2_METADATA_DISABLED", "true").env("PATH", "/usr/bin:/bin");
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{name}: {text}");
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} in the output of {name}: {text}");
    }
}

async fn serve() -> Server {
    let server = Server::start("127.0.0.1:0").await.unwrap();
    server.put("o", "hello");
    server
}

async fn open(server: &Server) -> Origin {
    let patience = Patience { first_pause: Duration::from_millis(2), ..Patience::default() };
    let uri = format!("s3://bucket?endpoint={}", server.endpoint());
    Origin::open_with(&uri, &OriginOptions::default(), patience).await.unwrap()
}

/// Reads, and asserts that the request was signed.
async fn read_signed(server: &Server, origin: &Origin) {
    let entry = origin.head("o").await.unwrap();
    let body = origin.get("o", &entry.version, 0..5).await.unwrap();
    assert_eq!(body.try_collect::<Vec<_>>().await.unwrap().concat(), b"hello");
    assert!(server.take_seen().iter().all(|seen| seen.signed));
}

#[test]
fn credentials_come_from_the_environment() {
    let home = tempfile::tempdir().unwrap();
    let keys = [
        ("AWS_ACCESS_KEY_ID", "AKIAPLANTED"),
        ("AWS_SECRET_ACCESS_KEY", "PlantedSecret"),
        ("AWS_SESSION_TOKEN", "PlantedToken"),
    ];
    case("inner_signed", home.path(), &keys);
    case("inner_errors_show_no_secret", home.path(), &keys);
}

#[test]
fn credentials_come_from_a_profile() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    let text = "[default]\naws_access_key_id=x\naws_secret_access_key=x\n\
                [other]\naws_access_key_id=AKIAPLANTED\naws_secret_access_key=PlantedSecret\n";
    std::fs::write(home.path().join(".aws/credentials"), text).unwrap();
    case("inner_signed", home.path(), &[("AWS_PROFILE", "other")]);
}

#[test]
fn credentials_come_from_a_program_and_are_renewed_before_they_expire() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    let program = home.path().join("give");
    // Each call leaves a mark; the first credentials expire in a minute, the next in an hour.
    let expiry =
        |seconds| humantime::format_rfc3339_seconds(SystemTime::now() + Duration::from_secs(seconds)).to_string();
    let (soon, late) = (expiry(60), expiry(3600));
    let script = format!(
        "#!/bin/sh\necho call >> {home}/calls\nif [ $(wc -l < {home}/calls) = 1 ]; then when={soon}; else when={late}; fi\n\
         echo '{{\"Version\":1,\"AccessKeyId\":\"AKIAPLANTED\",\"SecretAccessKey\":\"PlantedSecret\",\"SessionToken\":\"PlantedToken\",\"Expiration\":\"'$when'\"}}'\n",
        home = home.path().display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let config = format!("[default]\ncredential_process={}\n", program.display());
    std::fs::write(home.path().join(".aws/config"), config).unwrap();
    case("inner_signed", home.path(), &[]);
    // The first were too short-lived to keep, so the second request asked again; then they were kept.
    let calls = std::fs::read_to_string(home.path().join("calls")).unwrap();
    assert_eq!(calls.lines().count(), 2, "{calls}");

    std::fs::remove_file(home.path().join("calls")).unwrap();
    case("inner_expired_credentials_are_asked_for_again", home.path(), &[]);
}

/// A service on loopback that lends credentials as AWS's do, and remembers what it was asked.
struct Lender {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Lender {
    /// Answers a request whose first line, headers and body contain `about` with the text beside it.
    fn start(answers: Vec<(&'static str, String)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answers, seen) = (answers.clone(), Arc::clone(&seen));
                std::thread::spawn(move || answer(stream.unwrap(), &answers, &seen));
            }
        });
        Self { url, asked }
    }

    fn was_asked(&self, about: &str) -> bool {
        self.asked.lock().unwrap().iter().any(|request| request.contains(about))
    }
}

/// Answers the one request of a connection.
fn answer(mut stream: TcpStream, answers: &[(&str, String)], seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut request, mut length) = (String::new(), 0);
    while reader.read_line(&mut request).unwrap() > 2 {
        let line = request.lines().last().unwrap().to_ascii_lowercase();
        length = line.strip_prefix("content-length:").map_or(length, |text| text.trim().parse().unwrap());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    request += &String::from_utf8_lossy(&body);
    let (status, text) = match answers.iter().find(|(about, _)| request.contains(about)) {
        Some((_, text)) => ("200 OK", text.as_str()),
        None => ("404 Not Found", ""),
    };
    seen.lock().unwrap().push(request);
    let headers =
        format!("content-length: {}\r\nx-aws-ec2-metadata-token-ttl-seconds: 600\r\nconnection: close", text.len());
    write!(stream, "HTTP/1.1 {status}\r\n{headers}\r\n\r\n{text}").unwrap();
}

/// A moment an hour from now.
fn in_an_hour() -> SystemTime {
    SystemTime::now() + Duration::from_secs(3600)
}

/// Keys as the services of containers and instances write them.
fn lent() -> String {
    let expiration = humantime::format_rfc3339_seconds(in_an_hour());
    format!(
        r#"{{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":"AKIAPLANTED","SecretAccessKey":"PlantedSecret",
            "Token":"PlantedToken","Expiration":"{expiration}","LastUpdated":"2020-01-01T00:00:00Z"}}"#
    )
}

#[test]
fn credentials_come_from_the_service_of_a_container() {
    let home = tempfile::tempdir().unwrap();
    let lender = Lender::start(vec![("GET /lend ", lent())]);
    let url = format!("{}/lend", lender.url);
    let variables = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*url), ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "hunter2")];
    case("inner_signed", home.path(), &variables);
    assert!(lender.was_asked("hunter2"));
}

#[test]
fn credentials_come_from_the_service_of_an_instance() {
    let home = tempfile::tempdir().unwrap();
    let lender = Lender::start(vec![
        ("PUT /latest/api/token ", "a-token".into()),
        ("GET /latest/meta-data/iam/security-credentials/trainer ", lent()),
        ("GET /latest/meta-data/iam/security-credentials-extended/trainer ", lent()),
        ("GET /latest/meta-data/iam/security-credentials", "trainer".into()),
    ]);
    let variables = [("AWS_EC2_METADATA_DISABLED", "false"), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*lender.url)];
    case("inner_signed", home.path(), &variables);
    assert!(lender.was_asked("a-token"));
}

#[test]
fn credentials_come_from_a_web_identity() {
    let home = tempfile::tempdir().unwrap();
    let token = home.path().join("token");
    std::fs::write(&token, "hunter2").unwrap();
    let expiration = humantime::format_rfc3339_seconds(in_an_hour());
    let answer = format!(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
         <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>AKIAPLANTED</AccessKeyId>\
         <SecretAccessKey>PlantedSecret</SecretAccessKey><SessionToken>PlantedToken</SessionToken>\
         <Expiration>{expiration}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>\
         </AssumeRoleWithWebIdentityResponse>"
    );
    let lender = Lender::start(vec![("Action=AssumeRoleWithWebIdentity", answer)]);
    let variables = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/trainer"),
        ("AWS_ENDPOINT_URL_STS", &lender.url),
    ];
    case("inner_signed", home.path(), &variables);
    assert!(lender.was_asked("WebIdentityToken=hunter2"));
}

#[test]
fn credentials_come_from_single_sign_on() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join(".aws/sso/cache");
    std::fs::create_dir_all(&cache).unwrap();
    let config = "[default]\nsso_session=us\nsso_account_id=123456789012\nsso_role_name=trainer\nregion=us-east-1\n\
                  [sso-session us]\nsso_region=us-east-1\nsso_start_url=https://example.com/start\n";
    std::fs::write(home.path().join(".aws/config"), config).unwrap();
    // What `aws sso login` leaves, named by the SHA-1 of the session's name.
    let expiry = humantime::format_rfc3339_seconds(in_an_hour());
    let token = format!(r#"{{"accessToken":"hunter2","expiresAt":"{expiry}","region":"us-east-1"}}"#);
    std::fs::write(cache.join("da2b128800d4e129def769b7ec5decc00517fa8b.json"), token).unwrap();
    let until = in_an_hour().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let answer = format!(
        r#"{{"roleCredentials":{{"accessKeyId":"AKIAPLANTED","secretAccessKey":"PlantedSecret",
            "sessionToken":"PlantedToken","expiration":{until}}}}}"#
    );
    let lender = Lender::start(vec![("GET /federation/credentials", answer)]);
    case("inner_signed", home.path(), &[("AWS_ENDPOINT_URL_SSO", &lender.url)]);
    assert!(lender.was_asked("role_name=trainer") && lender.was_asked("hunter2"));
}

#[test]
fn without_credentials_the_error_says_where_they_are_looked_for() {
    let home = tempfile::tempdir().unwrap();
    case("inner_no_credentials", home.path(), &[]);
    case("inner_anonymous_needs_none", home.path(), &[]);
}

#[test]
fn the_endpoint_comes_from_the_environment_or_the_profile() {
    let home = tempfile::tempdir().unwrap();
    let keys = [("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let with = |name, value| keys.into_iter().chain([(name, value)]).collect::<Vec<_>>();
    case("inner_endpoint", home.path(), &with("AWS_ENDPOINT_URL", "http://127.0.0.1:9/"));
    case("inner_endpoint", home.path(), &with("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9"));
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    std::fs::write(home.path().join(".aws/config"), "[default]\nendpoint_url=http://127.0.0.1:9\n").unwrap();
    case("inner_endpoint", home.path(), &keys);
}

#[tokio::test]
async fn credentials_in_a_uri_are_never_shown() {
    let server = serve().await;
    let address = server.address();
    let uris = [
        format!("http://hunter2@{address}/b/o"),
        format!("http://me:hunter2@{address}/b/o"),
        format!(
            "http://{address}/b/o?X-Amz-Credential=AKIAPLANTED%2F1&X-Amz-Signature=hunter2&X-Amz-Security-Token=PlantedToken"
        ),
        format!("throttled:latency=1ms:http://{address}/b/o?sv=1&sig=hunter2"),
        format!("http://{address}/b/?access_token=hunter2"),
    ];
    for uri in uris {
        server.faults("o", [Fault::Status(403, "AccessDenied")]);
        let options = OriginOptions::default();
        let patience = Patience { attempts: 2, first_pause: Duration::from_millis(2), ..Patience::default() };
        let origin = Origin::open_with(&uri, &options, patience).await.unwrap();
        let mut shown = format!("{origin:?} {origin:#?} {} {}", origin.uri(), origin.identity());
        let denied = origin.head("o").await.unwrap_err();
        server.faults("o", vec![Fault::Reset; 2]);
        let gone = origin.head("o").await.unwrap_err();
        server.faults("o", vec![Fault::Status(500, "x"); 2]);
        let failed = origin.list().try_collect::<Vec<_>>().await.unwrap_err();
        shown += &format!("{denied} {denied:?} {gone} {gone:?} {failed} {failed:?}");
        for secret in SECRETS {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
    }
    for uri in [
        "s3://AKIAPLANTED:hunter2@b",
        "s3://b?secret=hunter2",
        "htp://u:hunter2@h",
        "s3:u:hunter2@b",
        "http://u:hunter2@ho st/",
    ] {
        let error = Origin::open(uri, &OriginOptions::default()).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

#[tokio::test]
#[ignore = "a case of another test"]
async fn inner_signed() {
    let server = serve().await;
    read_signed(&server, &open(&server).await).await;
}

#[tokio::test]
#[ignore = "a case of another test"]
async fn inner_expired_credentials_are_asked_for_again() {
    let server = serve().await;
    let origin = open(&server).await;
    read_signed(&server, &origin).await;
    let calls =
        || std::fs::read_to_string(Path::new(&std::env::var("HOME").unwrap()).join("calls")).unwrap().lines().count();
    let before = calls();
    server.faults("o", [Fault::Status(400, "ExpiredToken")]);
    read_signed(&server, &origin).await;
    assert_eq!(calls(), before + 1);
}

#[tokio::test]
#[ignore = "a case of another test"]
async fn inner_no_credentials() {
    let server = serve().await;
    let error = open(&server).await.head("o").await.unwrap_err();
    assert!(
        matches!(&error, Error::Denied(text) if text.contains("~/.aws") && text.contains("--anonymous")),
        "{error}"
    );
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
#[ignore = "a case of another test"]
async fn inner_anonymous_needs_none() {
    let server = serve().await;
    let options = OriginOptions { anonymous: true, ..OriginOptions::default() };
    let origin = Origin::open(&format!("s3://bucket?endpoint={}", server.endpoint()), &options).await.unwrap();
    origin.head("o").await.unwrap();
    assert!(!server.take_seen()[0].signed);
}

#[tokio::test]
#[ignore = "a case of another test"]
async fn inner_endpoint() {
    let origin = Origin::open("s3://bucket/p", &OriginOptions::default()).await.unwrap();
    assert_eq!(origin.identity(), "s3://bucket/p?endpoint=http://127.0.0.1:9");
}

#[tokio::test]
#[ignore = "a case of another test"]
async fn inner_errors_show_no_secret() {
    let server = serve().await;
    let origin = open(&server).await;
    let entry = origin.head("o").await.unwrap();
    // S3 repeats what was signed when a signature does not match.
    let body = "<CanonicalRequest>x-amz-security-token:PlantedToken</CanonicalRequest><AWSAccessKeyId>AKIAPLANTED</AWSAccessKeyId>";
    server.faults("o", [Fault::Body(403, body)]);
    let denied = origin.get("o", &entry.version, 0..5).await.err().unwrap();
    server.faults("o", vec![Fault::Body(500, body); 8]);
    let failed = origin.get("o", &entry.version, 0..5).await.err().unwrap();
    println!("{origin:?} {} {denied} {denied:?} {failed} {failed:?}", origin.uri());
}
