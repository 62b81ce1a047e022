//! `fodder job`: everything a job says, typed.

use crate::program::{Data, Ended, Node};
use serde_json::{Value, json};

fn told(ended: Ended) -> Value {
    serde_json::from_str(&ended.good().text()).unwrap()
}

#[test]
fn a_job_can_be_led_through_its_life_by_hand() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let say = |args: &[&str]| node.client(&[&["job"], args].concat());
    let file = |name: &str| cache.path().join(name).to_str().unwrap().to_owned();
    let write = |name: &str, text: &str| {
        std::fs::write(file(name), text).unwrap();
        file(name)
    };

    let introduced = told(say(&["introduce", "pets", "resnet", "--mode", "reorder", "--window", "4", "--lease", "5m"]));
    assert_eq!(introduced["items"], 8);
    let begun = told(say(&["begin", "pets", "resnet", "--epoch", "0", "--seed", "3"]));
    assert_eq!((&begun["items"], &begun["audit"]), (&json!(8), &Value::Null));
    let bytes = file("batch");
    let batch =
        told(say(&["next", "pets", "resnet", "--epoch", "0", "--number", "0", "--count", "3", "--out", &bytes]));
    let given: Vec<usize> =
        batch["items"].as_array().unwrap().iter().map(|item| item["served"].as_u64().unwrap() as usize).collect();
    let expected: Vec<u8> = given.iter().flat_map(|id| data.files[*id].1.clone()).collect();
    assert!(given.len() == 3 && std::fs::read(&bytes).unwrap() == expected);
    assert_eq!(batch["items"][0]["label"], given[0] / 4);
    assert!(batch["items"][0]["source"].as_str().is_some_and(|source| source != "unspecified"), "{batch}");

    // By its number as well as by its name.
    let number = introduced["job"].as_str().unwrap();
    let checkpoint = file("checkpoint");
    say(&["ack", "pets", number, "--epoch", "0", "0"]).good();
    say(&["checkpoint", "pets", number, &checkpoint]).good();
    let rest: Vec<String> = (0..8).filter(|id| !given.contains(id)).map(|id| id.to_string()).collect();
    let consumed: Vec<&str> =
        ["consumed", "pets", "resnet", "--epoch", "0"].into_iter().chain(rest.iter().map(|id| &**id)).collect();
    say(&consumed).good();
    let resumed = told(say(&["resume", "pets", "resnet", &checkpoint, "--world", "2"]));
    assert_eq!((&resumed["left"], &resumed["epoch"]), (&json!(5), &json!(0)));
    assert!(say(&["renew", "pets", number]).bad().contains("resumed"), "it has another number now");
    say(&["renew", "pets", "resnet"]).good();

    let scores = write("scores", "1 0.5\n7 2\n");
    assert_eq!(told(say(&["scores", "pets", "resnet", &scores])), json!({ "taken": 2 }));
    let scores = write("all", &"0.5\n".repeat(8));
    assert_eq!(told(say(&["scores", "pets", "resnet", &scores])), json!({ "taken": 8 }));
    let alike = write("alike", "0 1 0\n1 0 1\n");
    assert_eq!(told(say(&["embeddings", "pets", "resnet", &alike])), json!({ "taken": 2 }));
    let order = write("order", "7\n6\n5\n");
    for rank in ["0", "1"] {
        let begun = told(say(&["begin", "pets", "resnet", "--epoch", "1", "--rank", rank, "--ids", &order]));
        assert_eq!(begun["items"], 2, "three for two ranks, and one of them once more");
    }
    told(say(&["introduce", "pets", "exact", "--world", "2", "--uneven", "exact"]));
    let shares = ["0", "1"].map(|rank| {
        told(say(&["begin", "pets", "exact", "--epoch", "0", "--rank", rank, "--ids", &order]))["items"].clone()
    });
    assert_eq!(shares, [json!(2), json!(1)], "three for two ranks, and nothing twice");
    told(say(&["leave", "pets", "exact"]));
    assert!(say(&["renew", "pets", "0123456789abcdef"]).bad().contains("names work on every node"));
    let left = told(say(&["leave", "pets", "resnet"]));
    assert_eq!((&left["planned"], &left["exact"]), (&json!(3), &json!(false)));
    assert!(say(&["leave", "pets", "resnet"]).bad().contains("job introduce"));
}

#[test]
fn what_a_job_says_wrongly_is_named() {
    let (data, cache) = (Data::new(), tempfile::tempdir().unwrap());
    let node = Node::start(cache.path(), &[data.path(), "--name", "pets"]);
    let say = |args: &[&str]| node.client(&[&["job"], args].concat());
    let write = |name: &str, text: &str| {
        let path = cache.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    assert!(say(&["introduce", "birds", "resnet"]).bad().contains("birds"));
    assert!(say(&["begin", "pets", "resnet", "--epoch", "0"]).bad().contains("--seed"));
    told(say(&["introduce", "pets", "resnet"]));
    assert!(say(&["renew", "pets", "vgg"]).bad().contains("it has: resnet"));
    for (what, text, expected) in [
        ("scores", "1 0.5\n2 many\n", "line 2: \"many\""),
        ("scores", "1 0.5\n2\n", "line 2 has 0 numbers"),
        ("scores", "1 NaN\n", "finite"),
        ("scores", "1 inf\n", "finite"),
        ("scores", "9999 1\n", "9999"),
        ("scores", "1\n2\n", "8"),
        ("embeddings", "0 1 0\n1 0\n", "line 2 has 1 numbers"),
    ] {
        let told = say(&[what, "pets", "resnet", &write("list", text)]).bad();
        assert!(told.contains(expected), "{what} {text:?}: {told}");
    }
    let twice = write("twice", "1\n1\n");
    assert!(say(&["begin", "pets", "resnet", "--epoch", "0", "--ids", &twice]).bad().contains('1'));
    let junk = write("junk", "not a checkpoint");
    assert!(say(&["resume", "pets", "resnet", &junk]).bad().contains("not a checkpoint of Fodder"));
}
