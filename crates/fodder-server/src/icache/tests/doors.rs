//! iCache's doors over a real engine.

use crate::{
    IcacheConfig,
    icache::operator::Door,
    testing::{Fixture, OBJECTS, content},
};
use axum::{body::Body, http::Request};
use fodder_api::icache::{DcReply, DcRequest, OpType};
use fodder_policy::Policy;
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt;

async fn submit(fixture: &Fixture, request: DcRequest) -> fodder_core::Result<DcReply> {
    Door::new(Arc::clone(&fixture.engine), Arc::clone(&fixture.info)).submit(request).await
}

fn request(operation: OpType) -> DcRequest {
    DcRequest { r#type: operation as i32, ..DcRequest::default() }
}

fn read(imgidx: i64) -> DcRequest {
    DcRequest { imgidx, ..request(OpType::ReadimgByidx) }
}

async fn http(fixture: &Fixture, method: &str, uri: &str, body: &str) -> (u16, String) {
    let router = crate::rest::router(Arc::clone(&fixture.engine), Arc::clone(&fixture.info));
    let form = "application/x-www-form-urlencoded";
    let request = Request::builder().method(method).uri(uri).header("content-type", form);
    let response = router.oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn get_json(fixture: &Fixture, uri: &str) -> Value {
    let (status, body) = http(fixture, "GET", uri, "").await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn a_sample_is_read_by_its_number_with_its_class() {
    let fixture = Fixture::new().await;
    for (number, (path, bytes)) in OBJECTS.iter().enumerate() {
        let reply = submit(&fixture, read(number as i64)).await.unwrap();
        assert!(reply.data == content(number, *bytes), "{path}");
        assert_eq!((reply.imgidx, reply.len), (number as i64, *bytes as i64));
        assert_eq!(reply.clsidx, i64::from(path.starts_with("dog")));
    }
}

#[tokio::test]
async fn only_what_a_tier_had_is_a_hit() {
    let fixture = Fixture::new().await;
    assert!(!submit(&fixture, read(0)).await.unwrap().is_hit);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !submit(&fixture, read(0)).await.unwrap().is_hit {
        assert!(std::time::Instant::now() < deadline, "never a hit");
    }
}

#[tokio::test]
async fn a_sample_that_does_not_exist_is_minus_one_with_a_reason() {
    let fixture = Fixture::new().await;
    for imgidx in [OBJECTS.len() as i64, -2, i64::MAX, i64::MIN] {
        let reply = submit(&fixture, read(imgidx)).await.unwrap();
        assert_eq!((reply.imgidx, reply.clsidx, reply.data.len(), reply.is_hit), (-1, -1, 0, false));
        assert!(reply.msg.contains("there is no sample"), "{}", reply.msg);
    }
}

#[tokio::test]
async fn any_sample_is_each_once_an_epoch_under_its_own_number() {
    let fixture = Fixture::new().await;
    for _ in 0..3 {
        let mut taken = Vec::new();
        for _ in 0..OBJECTS.len() {
            let reply = submit(&fixture, read(-1)).await.unwrap();
            let number = usize::try_from(reply.imgidx).unwrap();
            assert!(reply.data == content(number, OBJECTS[number].1));
            taken.push(number);
        }
        taken.sort_unstable();
        assert_eq!(taken, (0..OBJECTS.len()).collect::<Vec<_>>());
    }
    // The end of an epoch in its middle lets every sample be taken again.
    submit(&fixture, read(-1)).await.unwrap();
    submit(&fixture, request(OpType::RefreshServerIvpsample)).await.unwrap();
    let mut taken = Vec::new();
    for _ in 0..OBJECTS.len() {
        taken.push(submit(&fixture, read(-1)).await.unwrap().imgidx);
    }
    taken.sort_unstable();
    assert_eq!(taken, (0..OBJECTS.len() as i64).collect::<Vec<_>>());
}

#[tokio::test]
async fn any_sample_of_an_empty_dataset_is_none() {
    let fixture = Fixture::empty(IcacheConfig::default()).await;
    fixture.add("empty").await;
    let reply = submit(&fixture, read(-1)).await.unwrap();
    assert_eq!((reply.imgidx, reply.msg.as_str()), (-1, "the dataset has no sample"));
}

fn flagged(imgidx_t: &str) -> DcRequest {
    DcRequest { imgidx_t: imgidx_t.to_owned(), ..request(OpType::ReadimgByidxT) }
}

#[tokio::test]
async fn an_important_sample_is_answered_with_itself_and_another_one_perhaps_by_a_cached_one() {
    let fixture = pets(Policy::Importance, IcacheConfig::default()).await;
    // Nothing else is cached, so that nothing can stand in for it.
    let reply = submit(&fixture, flagged("{\"0\": 0}")).await.unwrap();
    assert_eq!((reply.imgidx, reply.len), (0, OBJECTS[0].1 as i64));
    cache_first(&fixture).await;
    let reply = submit(&fixture, flagged("{\"2\": 0}")).await.unwrap();
    assert_eq!((reply.imgidx, reply.is_hit), (0, false), "{}", reply.msg);
    assert!(reply.data == content(0, OBJECTS[0].1) && reply.msg.contains("stands in for 2"), "{}", reply.msg);
    let reply = submit(&fixture, flagged("{\"2\": 1}")).await.unwrap();
    assert_eq!((reply.imgidx, reply.data.as_ref()), (2, content(2, 10).as_slice()));
}

/// The objects as a dataset with a policy.
async fn pets(policy: Policy, icache: IcacheConfig) -> Fixture {
    let fixture = Fixture::empty(icache).await;
    for (number, (path, bytes)) in OBJECTS.iter().enumerate() {
        fixture.put(path, &content(number, *bytes));
    }
    fixture.add_with("pets", policy).await;
    fixture
}

/// Reads the first sample until it is cached.
async fn cache_first(fixture: &Fixture) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !submit(fixture, read(0)).await.unwrap().is_hit {
        assert!(std::time::Instant::now() < deadline, "never cached");
    }
}

#[tokio::test]
async fn a_sample_is_replaced_only_for_isa_with_package_design_and_not_with_full_access() {
    let without = IcacheConfig { package_design: false, ..IcacheConfig::default() };
    for (policy, icache, full_access) in [
        (Policy::Lru, IcacheConfig::default(), false),
        (Policy::Importance, without, false),
        (Policy::Importance, IcacheConfig::default(), true),
    ] {
        let fixture = pets(policy, icache).await;
        cache_first(&fixture).await;
        // The job of these clients now knows that the first sample is cached, whatever the policy.
        assert_eq!(submit(&fixture, flagged("{\"0\": 1}")).await.unwrap().imgidx, 0);
        let reply = submit(&fixture, DcRequest { full_access, ..flagged("{\"2\": 0}") }).await.unwrap();
        assert_eq!(reply.imgidx, 2, "{policy:?}: {}", reply.msg);
    }
}

#[tokio::test]
async fn quiver_answers_a_cached_sample_once_an_epoch_and_others_with_minus_one() {
    let fixture = pets(Policy::Quiver, IcacheConfig::default()).await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let mut taken = Vec::new();
    // The chunk loader brings the samples; each is then answered by its number, once.
    while taken.len() < OBJECTS.len() - 1 {
        assert!(std::time::Instant::now() < deadline, "never cached: {taken:?}");
        for (number, (_, bytes)) in OBJECTS.iter().enumerate().take(OBJECTS.len() - 1) {
            let reply = submit(&fixture, read(number as i64)).await.unwrap();
            if reply.imgidx == -1 {
                assert_eq!((reply.clsidx, reply.len, reply.data.len(), reply.is_hit), (-1, 0, 0, false));
                continue;
            }
            assert_eq!(reply.imgidx, number as i64);
            assert!(reply.data == content(number, *bytes));
            assert!(!taken.contains(&number), "{number} was answered twice");
            taken.push(number);
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let last = submit(&fixture, read(-1)).await.unwrap();
    assert_eq!(last.imgidx, OBJECTS.len() as i64 - 1, "any sample is the one that is left");
}

#[tokio::test]
async fn junk_about_a_flagged_sample_is_answered_with_a_reason() {
    let fixture = Fixture::new().await;
    for junk in ["", "{}", "{\"9\": 1}", "{\"0\": 7}", "nonsense"] {
        let reply = submit(&fixture, flagged(junk)).await.unwrap();
        assert_eq!((reply.imgidx, reply.data.len()), (-1, 0));
        assert!(!reply.msg.is_empty());
    }
}

#[tokio::test]
async fn losses_and_ends_of_epochs_are_counted_when_they_make_sense() {
    let fixture = Fixture::new().await;
    let tell = |json: &str| DcRequest { kvlist_json: json.to_owned(), ..request(OpType::UpdateIvpersample) };
    let reply = submit(&fixture, tell("{\"0\": 0.5, \"3\": 1.25}")).await.unwrap();
    assert!(reply.msg.contains("accepted 2"), "{}", reply.msg);
    for junk in ["", "{\"0\": NaN}", "{\"4\": 1}", "[]"] {
        let reply = submit(&fixture, tell(junk)).await.unwrap();
        assert!(reply.msg.contains("refused"), "{}", reply.msg);
    }
    submit(&fixture, request(OpType::RefreshServerIvpsample)).await.unwrap();
    let icache = &fixture.info.state.icache;
    assert_eq!((icache.losses(), icache.epochs()), (2, 1));
}

#[tokio::test]
async fn the_size_of_the_cache_is_told_in_samples() {
    let fixture = Fixture::new().await;
    let reply = submit(&fixture, request(OpType::GetCacheInfo)).await.unwrap();
    assert_eq!((reply.id, reply.nsamples), (0, OBJECTS.len() as i64));
    assert!((0..=reply.nsamples).contains(&reply.cache_size));
}

#[tokio::test]
async fn a_made_up_image_needs_no_dataset_is_rgb_and_a_hit() {
    let fixture = Fixture::empty(IcacheConfig::default()).await;
    for operation in [OpType::ReadimgByidx, OpType::ReadimgByidxT] {
        let reply = submit(&fixture, DcRequest { id: 1, imgidx: 9, ..request(operation) }).await.unwrap();
        assert!(reply.data.starts_with(b"\x89PNG\r\n\x1a\n") && reply.data.ends_with(b"IEND\xaeB\x60\x82"));
        assert_eq!((reply.imgidx, reply.clsidx, reply.is_hit), (0, 0, true));
        assert_eq!(reply.data[25], 2, "the colour type is RGB");
        assert_eq!(reply.len, reply.data.len() as i64);
    }
}

#[tokio::test]
async fn an_operation_that_is_not_known_is_told_so() {
    let fixture = Fixture::new().await;
    let reply = submit(&fixture, DcRequest { r#type: 99, ..DcRequest::default() }).await.unwrap();
    assert!(reply.msg.contains("99"), "{}", reply.msg);
}

#[tokio::test]
async fn which_dataset_is_meant_is_never_guessed_and_never_changes() {
    let fixture = Fixture::empty(IcacheConfig::default()).await;
    let error = submit(&fixture, read(0)).await.unwrap_err();
    assert!(matches!(error, fodder_core::Error::NotFound(_)), "{error}");
    fixture.put("cat/0.jpg", b"meow");
    fixture.add("b").await;
    fixture.add("a").await;
    let error = submit(&fixture, read(0)).await.unwrap_err();
    assert!(error.to_string().contains("icache.dataset"), "{error}");
    assert_eq!(http(&fixture, "GET", "/statistic", "").await.0, 409);

    fixture.engine.remove_dataset("a").await.unwrap();
    assert_eq!(submit(&fixture, read(0)).await.unwrap().data.as_ref(), b"meow");
    fixture.add("a").await;
    assert_eq!(submit(&fixture, read(0)).await.unwrap().data.as_ref(), b"meow");

    let named = Fixture::with(IcacheConfig { dataset: Some("other".into()), ..IcacheConfig::default() }).await;
    assert!(submit(&named, read(0)).await.is_err());
    named.add("other").await;
    assert_eq!(submit(&named, read(0)).await.unwrap().len, 1000);
}

#[tokio::test]
async fn the_paths_of_icache_have_the_fields_its_client_reads() {
    let fixture = Fixture::new().await;
    let statistic = get_json(&fixture, "/statistic").await;
    assert_eq!(statistic["dcserver_data_path"], fixture.origin().parent().unwrap().to_str().unwrap());
    assert_eq!((&statistic["cache_type"], &statistic["mjob_enable"]), (&json!("coordl"), &json!(true)));
    assert!(statistic["cache_ratio"].as_f64().is_some_and(|ratio| (0.0..=1.0).contains(&ratio)), "{statistic}");

    let cache = get_json(&fixture, "/cache").await;
    let paths = cache["imgidx2imgpath"].as_object().unwrap();
    assert_eq!((paths.len(), &cache["noimg"]), (OBJECTS.len(), &json!(OBJECTS.len())));
    for (number, (path, _)) in OBJECTS.iter().enumerate() {
        assert_eq!(paths[&number.to_string()], fixture.origin().join(path).to_str().unwrap());
    }

    let node = get_json(&fixture, "/node").await;
    assert_eq!((&node["restport"], &node["rpcport"]), (&json!(18283), &json!(18284)));
    let cluster = get_json(&fixture, "/cluster").await;
    let (status, posted) = http(&fixture, "POST", "/cluster", "info").await;
    assert_eq!((status, serde_json::from_str::<Value>(&posted).unwrap()), (200, cluster.clone()));
    assert_eq!(http(&fixture, "POST", "/cluster", "join").await.0, 400);
    assert_eq!(cluster, json!({ "nodes": ["127.0.0.1"], "infomap": { "127.0.0.1": node } }));
}

#[tokio::test]
async fn a_job_introduces_itself_and_its_end_ends_nothing_else() {
    let fixture = Fixture::new().await;
    let (status, body) = http(&fixture, "POST", "/mjob", "op=INIT").await;
    let job: Value = serde_json::from_str(&body).unwrap();
    let uuid = job["job_uuid"].as_str().unwrap();
    assert_eq!((status, uuid.len(), &job["job_id"]), (200, 36, &json!(1)));
    let dataset = fixture.engine.dataset("pets").unwrap();
    assert!(dataset.jobs().find(uuid).is_some(), "it is a job of the dataset");

    let update = format!("op=UPDATE&job_uuid={uuid}&job_name=train.py&job_args=-b+256+%C3%BC");
    assert_eq!(http(&fixture, "PUT", "/mjob", &update).await, (200, String::new()));
    let (status, end) = http(&fixture, "PUT", &format!("/mjob?op=FINISH&job_uuid={uuid}"), "").await;
    assert_eq!((status, end.len()), (200, "2026-01-31 12:00:00 1769860800000000000".len()), "{end}");

    assert_eq!(dataset.jobs().find(uuid), None, "it has left");
    let (status, body) = http(&fixture, "POST", "/mjob", &format!("op=GETBYUUID&uuid={uuid}")).await;
    let job: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &job["job_args"], &job["job_endtime"]), (200, &json!("-b 256 ü"), &json!(end)));
    assert_eq!(get_json(&fixture, "/mjob").await, json!({ uuid: job }));
    assert_eq!(http(&fixture, "GET", "/healthz", "").await.0, 200);

    http(&fixture, "POST", "/mjob?op=INIT", "").await;
    assert_eq!(http(&fixture, "DELETE", "/mjob", &format!("job_uuid={uuid}")).await.1, "clear 1 job meta data");
    assert_eq!(http(&fixture, "DELETE", "/mjob", "").await.1, "clear 1 job meta data");
}

#[tokio::test]
async fn an_update_of_an_unknown_uuid_creates_the_job_and_its_arguments_may_be_long() {
    let fixture = Fixture::new().await;
    let args = "%2D".repeat(600_000);
    let update = format!("op=UPDATE&job_uuid=lost&job_name=train.py&job_args={args}");
    assert_eq!(http(&fixture, "PUT", "/mjob", &update).await, (200, String::new()));
    let job = get_json(&fixture, "/mjob").await["lost"].clone();
    assert_eq!((&job["job_uuid"], &job["job_name"]), (&json!("lost"), &json!("train.py")));
    assert_eq!(job["job_args"].as_str().unwrap(), "-".repeat(600_000));
    let dataset = fixture.engine.dataset("pets").unwrap();
    assert!(dataset.jobs().find("lost").is_some(), "it is a job of the dataset");
    // Jobs that are not iCache's are out of reach.
    submit(&fixture, flagged("{\"0\": 1}")).await.unwrap();
    for (uuid, expected) in [("icache", 409), ("icache-any", 409), ("", 400)] {
        let update = format!("op=UPDATE&job_uuid={uuid}&job_name=n&job_args=a");
        assert_eq!(http(&fixture, "PUT", "/mjob", &update).await.0, expected, "{uuid:?}");
    }
    assert_eq!(http(&fixture, "PUT", "/mjob", "op=FINISH&job_uuid=icache").await.0, 404);
    assert!(dataset.jobs().find("icache").is_some());
}

#[tokio::test]
async fn junk_about_jobs_is_refused_with_a_reason() {
    let fixture = Fixture::empty(IcacheConfig::default()).await;
    let long = format!("op=UPDATE&job_uuid=x&job_name=n&job_args={}", "x".repeat((1 << 20) + 1));
    for (method, body, expected) in [
        ("POST", "", 400),
        ("POST", "op=", 400),
        ("POST", "op=UPDATE", 400),
        ("POST", "op=GETBYUUID", 400),
        ("POST", "op=GETBYUUID&uuid=x", 404),
        ("PUT", "op=INIT", 400),
        ("PUT", "op=FINISH", 400),
        ("PUT", "op=FINISH&job_uuid=x", 404),
        ("PUT", "op=UPDATE&job_uuid=x", 400),
        ("PUT", "op=UPDATE&job_uuid=x&job_name=n&job_args=a", 404),
        ("PUT", &long, 400),
        ("PUT", "%%%&&&==", 400),
    ] {
        let (status, answer) = http(&fixture, method, "/mjob", body).await;
        assert_eq!(status, expected, "{method} {body}: {answer}");
        assert!(answer.contains("\"message\""), "{answer}");
    }
}
