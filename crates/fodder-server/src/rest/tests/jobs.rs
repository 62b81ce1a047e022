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

#[tokio::test]
async fn a_job_goes_through_an_epoch_and_resumes() {
    let fixture = Fixture::new().await;
    let items = OBJECTS.len();
    let job = post_json(&fixture, JOBS, &json!({ "name": "resnet" })).await.json()["job"].clone();
    let uri = |job: &Value, what: &str| format!("{JOBS}/{}/{what}", job.as_str().unwrap());
    let post = async |uri: String, body: Value| post_json(&fixture, &uri, &body).await;

    let begun = post(uri(&job, "epochs"), json!({ "epoch": 0, "seed": 7 })).await;
    assert_eq!((begun.status, &begun.json()["items"]), (StatusCode::OK, &json!(items)), "{}", begun.text());
    let ask = json!({ "epoch": 0, "number": 0, "count": 2 });
    let batch = post(uri(&job, "batches"), ask.clone()).await.json();
    let given = batch["items"].as_array().unwrap();
    assert_eq!((given.len(), &given[0]["kind"], &given[0]["asked"]), (2, &json!("planned"), &given[0]["served"]));
    assert_eq!(post(uri(&job, "batches"), ask).await.json(), batch, "the same number is the same batch");
    // What was served is read by its id.
    let read = get(&fixture, &format!("/api/v1/datasets/pets/items/{}", given[0]["served"])).await;
    assert_eq!(read.status, StatusCode::OK);

    let checkpoint = get(&fixture, &uri(&job, "checkpoint")).await.body;
    let done = post(uri(&job, "acknowledge"), json!({ "epoch": 0, "numbers": [0] })).await;
    assert_eq!((done.status, done.body.len()), (StatusCode::NO_CONTENT, 0));
    let shown = get(&fixture, &format!("{JOBS}/{}", job.as_str().unwrap())).await.json();
    assert_eq!(shown["consumed"], 2);
    assert_eq!(post(uri(&job, "renew"), Value::Null).await.status, StatusCode::NO_CONTENT);

    // Back to before anything was consumed, on two ranks.
    let resume = format!("{}?world=2", uri(&job, "resume"));
    let resumed = ask_raw(&fixture, &resume, checkpoint).await;
    assert_eq!(resumed.status, StatusCode::OK, "{}", resumed.text());
    let resumed = resumed.json();
    assert_eq!((&resumed["left"], &resumed["epoch"]), (&json!(items), &json!(0)));
    assert_eq!(post(uri(&job, "renew"), Value::Null).await.status, StatusCode::CONFLICT, "it has another number now");
    let job = resumed["job"].clone();
    let consumed = json!({ "epoch": 0, "ids": (0..items).collect::<Vec<_>>() });
    assert_eq!(post(uri(&job, "consumed"), consumed).await.status, StatusCode::NO_CONTENT);
    for rank in 0..2 {
        let next = json!({ "epoch": 1, "rank": rank, "ids": (0..items).rev().collect::<Vec<_>>() });
        let begun = post(uri(&job, "epochs"), next).await.json();
        assert_eq!(begun["audit"]["exact"], if rank == 0 { Value::Null } else { json!(true) }, "{begun}");
    }
}

#[tokio::test]
async fn a_job_reports_scores_and_embeddings_and_is_told_what_is_wrong_with_them() {
    let fixture = Fixture::new().await;
    let items = OBJECTS.len();
    let job = post_json(&fixture, JOBS, &json!({ "name": "resnet" })).await.json()["job"].clone();
    let uri = |what: &str| format!("{JOBS}/{}/{what}", job.as_str().unwrap());
    let all = post_json(&fixture, &uri("scores"), &json!({ "scores": vec![0.5; items] })).await;
    assert_eq!((all.status, &all.json()["taken"]), (StatusCode::OK, &json!(items)), "{}", all.text());
    let some = post_json(&fixture, &uri("scores"), &json!({ "ids": [1], "scores": [2.0] })).await;
    assert_eq!(some.json()["taken"], 1);
    let alike = json!({ "dimension": 2, "ids": [0, 1], "values": [1.0, 0.0, 0.0, 1.0] });
    assert_eq!(post_json(&fixture, &uri("embeddings"), &alike).await.json()["taken"], 2);
    for (what, body, expected) in [
        ("scores", json!({ "scores": [1.0] }), "scores"),
        ("scores", json!({ "ids": [9999], "scores": [1.0] }), "9999"),
        ("scores", json!({ "ids": [0, 1], "scores": [1.0] }), "1"),
        ("scores", json!({ "ids": [0], "scores": [1e300] }), "finite"),
        ("scores", json!({ "ids": [0], "scores": ["NaN"] }), "NaN"),
        ("embeddings", json!({ "dimension": 3, "ids": [0], "values": [1.0, 0.0, 0.0] }), "3"),
        ("embeddings", json!({ "dimension": 2, "ids": [0], "values": [1.0] }), "1"),
        ("epochs", json!({ "epoch": 0 }), "seed"),
        ("epochs", json!({ "epoch": 0, "seed": 1, "ids": [1] }), "seed"),
        ("epochs", json!({ "epoch": 0, "ids": [1, 1] }), "1"),
        ("batches", json!({ "epoch": 0, "number": 0, "count": 70000 }), "65536"),
        ("acknowledge", json!({ "epoch": 0, "numbers": vec![0; 2000] }), "1024"),
    ] {
        let answer = post_json(&fixture, &uri(what), &body).await;
        assert_eq!((answer.status, answer.problem().as_str()), (StatusCode::BAD_REQUEST, "invalid"), "{what} {body}");
        assert!(answer.text().contains(expected), "{what} {body}: {}", answer.text());
    }
    let junk = ask_raw(&fixture, &uri("resume"), b"junk".to_vec()).await;
    assert_eq!((junk.status, junk.problem().as_str()), (StatusCode::BAD_GATEWAY, "corrupt"));
    let stranger = format!("{JOBS}/0000000000000007/scores");
    let answer = post_json(&fixture, &stranger, &json!({ "ids": [0], "scores": [1.0] })).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_list_may_be_long_but_not_endless() {
    let fixture = Fixture::new().await;
    let job = post_json(&fixture, JOBS, &json!({ "name": "resnet" })).await.json()["job"].clone();
    let uri = format!("{JOBS}/{}/scores", job.as_str().unwrap());
    let answer = post_json(&fixture, &uri, &json!({ "scores": vec![0.5; 100_000] })).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "it is read, and there are not so many items");
    let answer = ask_raw(&fixture, &uri, vec![b' '; MAX_LIST_BYTES + 1]).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    let answer = ask_raw(&fixture, JOBS, vec![b' '; MAX_BODY_BYTES + 1]).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn ranks_of_one_attempt_go_on_together_and_another_attempt_is_another_run() {
    let fixture = Fixture::new().await;
    let job = post_json(&fixture, JOBS, &json!({ "name": "resnet", "world": 2 })).await.json()["job"].clone();
    let uri = |job: &Value, what: &str| format!("{JOBS}/{}/{what}", job.as_str().unwrap());
    post_json(&fixture, &uri(&job, "epochs"), &json!({ "epoch": 0, "seed": 7 })).await;
    let checkpoint = get(&fixture, &uri(&job, "checkpoint")).await.body;
    let resume = async |rank: u32, attempt: u32| {
        let uri = format!("{}?world=2&rank={rank}&attempt={attempt}", uri(&job, "resume"));
        ask_raw(&fixture, &uri, checkpoint.clone()).await.json()["job"].clone()
    };
    let first = resume(0, 5).await;
    assert_eq!(resume(1, 5).await, first);
    // Rank 1 has not said the same twice: only the number tells that this is another start.
    let second = resume(0, 6).await;
    assert_ne!(second, first);
    assert_eq!(resume(1, 6).await, second);
    assert_eq!(post_json(&fixture, &uri(&first, "renew"), &Value::Null).await.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_rank_that_says_again_that_it_resumes_has_not_started_again() {
    let fixture = Fixture::new().await;
    let job = post_json(&fixture, JOBS, &json!({ "name": "resnet", "world": 2 })).await.json()["job"].clone();
    let uri = |job: &Value, what: &str| format!("{JOBS}/{}/{what}", job.as_str().unwrap());
    post_json(&fixture, &uri(&job, "epochs"), &json!({ "epoch": 0, "seed": 7 })).await;
    let checkpoint = get(&fixture, &uri(&job, "checkpoint")).await.body;
    let resume = async |rank: u32, nonce: u32| {
        let uri = format!("{}?world=2&rank={rank}&nonce={nonce}", uri(&job, "resume"));
        ask_raw(&fixture, &uri, checkpoint.clone()).await.json()["job"].clone()
    };
    let first = resume(0, 8).await;
    assert_eq!(resume(1, 9).await, first);
    // It did not hear the answer.
    assert_eq!(resume(0, 8).await, first);
    let second = resume(0, 10).await;
    assert_ne!(second, first, "another number is another start");
    assert_eq!(resume(1, 11).await, second);
    assert_ne!(resume(1, 0).await, second, "without one each time is another start");
}

#[tokio::test]
async fn a_receipt_shows_what_a_rank_has_consumed() {
    let fixture = Fixture::new().await;
    let items = OBJECTS.len();
    let job = post_json(&fixture, JOBS, &json!({ "name": "resnet" })).await.json()["job"].clone();
    let uri = |what: &str| format!("{JOBS}/{}/{what}", job.as_str().unwrap());
    let post = async |what: &str, body: Value| post_json(&fixture, &uri(what), &body).await;
    let begun = post("epochs", json!({ "epoch": 0, "seed": 7 })).await.json();
    assert!(!begun["receipt"].as_str().unwrap().is_empty());
    let mut given = Vec::new();
    for number in 0..2 {
        let batch = post("batches", json!({ "epoch": 0, "number": number, "count": 1 })).await.json();
        given.push(batch["items"][0]["asked"].clone());
    }
    let told = post("acknowledge", json!({ "epoch": 0, "numbers": [0], "receipt": true })).await;
    assert_eq!(told.status, StatusCode::OK, "{}", told.text());
    let receipt = told.json()["receipt"].clone();
    // It goes on behind what the receipt has and what it says it has consumed since, in batches from 0 on.
    let again = json!({ "epoch": 0, "seed": 7, "receipt": receipt, "consumed": [given[1]] });
    let begun = post("epochs", again).await;
    assert_eq!(begun.status, StatusCode::OK, "{}", begun.text());
    let rest = post("batches", json!({ "epoch": 0, "number": 0, "count": items })).await.json();
    let rest: Vec<_> = rest["items"].as_array().unwrap().iter().map(|item| item["asked"].clone()).collect();
    assert_eq!(rest.len(), items - 2);
    assert!(given.iter().all(|item| !rest.contains(item)), "{given:?} {rest:?}");
    for (receipt, expected) in [("?", 400), ("anVuaw==", 502)] {
        let answer = post("epochs", json!({ "epoch": 0, "seed": 7, "receipt": receipt })).await;
        assert_eq!(answer.status.as_u16(), expected, "{}", answer.text());
    }
}

/// Posts bytes.
async fn ask_raw(fixture: &Fixture, uri: &str, body: Vec<u8>) -> Answer {
    ask(fixture, "POST", uri, &[("content-type", "application/octet-stream")], body).await
}
