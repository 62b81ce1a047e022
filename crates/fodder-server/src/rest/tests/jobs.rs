//! The jobs of a dataset.

use super::*;

const JOBS: &str = "/api/v1/datasets/pets/jobs";

#[tokio::test]
async fn a_job_is_introduced_shown_checkpointed_and_ended() {
    let fixture = Fixture::new().await;
    assert_eq!(get(&fixture, JOBS).await.json(), json!([]));
    let job = json!({ "name": "resnet", "mode": { "reorder": { "window": 3 } }, "world": 2, "lease": "5m" });
    let added = post_json(&fixture, JOBS, &job).await;
    assert_eq!(added.status, StatusCode::CREATED, "{}", added.text());
    let added = added.json();
    assert_eq!((&added["mode"], &added["uneven"]), (&job["mode"], &json!("pad")));
    assert_eq!((&added["epoch"], &added["last"], &added["weight"]), (&Value::Null, &Value::Null, &json!(1.0)));

    let again = post_json(&fixture, JOBS, &job).await.json();
    assert_eq!(again["job"], added["job"], "the same introduction is the same job");
    let list = get(&fixture, JOBS).await.json();
    assert_eq!(list.as_array().unwrap().len(), 1);

    let uri = format!("{JOBS}/{}", added["job"].as_str().unwrap());
    let dataset = fixture.engine.dataset("pets").unwrap();
    let id = dataset.jobs().find("resnet").unwrap();
    dataset.jobs().begin(id, 0, 0, fodder_core::job::Order::Seed(1)).unwrap();
    let shown = get(&fixture, &uri).await.json();
    assert_eq!((&shown["epoch"], &shown["planned"]), (&json!(0), &json!(OBJECTS.len())));
    let checkpoint = get(&fixture, &format!("{uri}/checkpoint")).await;
    assert_eq!(checkpoint.header("content-type"), "application/octet-stream");
    assert!(!checkpoint.body.is_empty());

    let ended = ask(&fixture, "DELETE", &uri, &[], Body::empty()).await.json();
    assert_eq!((&ended["exact"], &ended["omissions"]), (&json!(false), &json!(OBJECTS.len())));
    assert_eq!(get(&fixture, &uri).await.status, StatusCode::NOT_FOUND);
    assert_eq!(get(&fixture, JOBS).await.json(), json!([]));
}

#[tokio::test]
async fn a_job_that_makes_no_sense_is_told_why() {
    let fixture = Fixture::new().await;
    for (job, expected) in [
        (json!({}), "name"),
        (json!({ "name": "" }), "name"),
        (json!({ "name": "x".repeat(300) }), "256"),
        (json!({ "name": "x", "mode": "best" }), "best"),
        (json!({ "name": "x", "mode": { "approx": { "max_fraction": 7 } } }), "max_fraction"),
        (json!({ "name": "x", "world": 0 }), "rank"),
        (json!({ "name": "x", "lease": "soon" }), "duration"),
        (json!({ "name": "x", "windw": 3 }), "windw"),
    ] {
        let answer = post_json(&fixture, JOBS, &job).await;
        assert_eq!((answer.status, answer.problem().as_str()), (StatusCode::BAD_REQUEST, "invalid"), "{job}");
        assert!(answer.text().contains(expected), "{job}: {}", answer.text());
    }
    for (uri, status) in [
        ("/api/v1/datasets/cats/jobs", 404),
        ("/api/v1/datasets/pets/jobs/resnet", 400),
        ("/api/v1/datasets/pets/jobs/00000000000000zz", 400),
        ("/api/v1/datasets/pets/jobs/0000000000000007", 404),
        ("/api/v1/datasets/pets/jobs/0000000000000007/checkpoint", 404),
    ] {
        let answer = get(&fixture, uri).await;
        assert_eq!(answer.status.as_u16(), status, "{uri}: {}", answer.text());
        answer.problem();
    }
}
