//! `fodder sim`: a table, JSON, pictures, and what is said of wrong input.

use crate::program::{fodder, run};
use serde_json::Value;
use std::fs;

const SMALL: [&str; 9] = ["sim", "--workload", "uniform", "--items", "500", "--epochs", "8", "--cache", "0.4,0.2"];

#[test]
fn it_prints_a_table_with_belady_and_the_bound() {
    let text = run(fodder().args(SMALL).args(["--policies", "lru,minio"])).good().text();
    let words = |line: &str| line.split_whitespace().take(3).map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = text.lines().skip(2).map(words).collect();
    assert_eq!(lines.iter().map(|line| &*line[0]).collect::<Vec<_>>(), ["hits", "lru", "minio", "belady", "bound"]);
    assert_eq!(lines[2][1..], ["0.200", "0.400"]);
    assert_eq!(lines[3][1..], lines[4][1..]);
}

#[test]
fn its_json_has_a_row_for_each_policy_and_cache_size() {
    let text = run(fodder().args(SMALL).args(["--policies", "lru,minio,lru", "--seed", "7", "--json"])).good().text();
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
    let cells: Vec<(&str, f64)> =
        rows.iter().map(|row| (row["policy"].as_str().unwrap(), row["cache"].as_f64().unwrap())).collect();
    let names = ["lru", "minio", "belady"];
    assert_eq!(cells, names.map(|name| [(name, 0.2), (name, 0.4)]).concat());
    for row in &rows {
        assert_eq!(row.as_object().unwrap().len(), 5, "{row}");
        assert_eq!(row["requests"], 6 * 500);
        assert!(row["hit_ratio"].as_f64() <= row["bound"].as_f64(), "{row}");
    }
}

#[test]
fn it_draws_by_the_name_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    for (name, begins) in [("a.svg", &b"<svg"[..]), ("b.PNG", b"\x89PNG")] {
        let file = dir.path().join(name);
        run(fodder().args(SMALL).args(["--policies", "lru", "--plot"]).arg(&file)).good();
        assert!(fs::read(&file).unwrap().starts_with(begins), "{name}");
    }
    let said = run(fodder().args(SMALL).args(["--plot", "c.pdf"])).bad();
    assert!(said.contains("must end in .svg or .png"), "{said}");
}

#[test]
fn a_trace_is_counted_by_bytes_and_its_junk_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trace.csv");
    let request = |at: u32| format!("{at},{},{}\n", at % 7, 10 + at % 7);
    fs::write(&file, (0..700).map(request).collect::<String>()).unwrap();
    let simulate = || run(fodder().args(["sim", "--json", "--cache", "0.5", "--trace"]).arg(&file));
    let rows: Vec<Value> = serde_json::from_str(&simulate().good().text()).unwrap();
    assert!(rows.iter().all(|row| row["byte_hit_ratio"].is_f64() && row["requests"] == 700));
    fs::write(&file, "time,obj_id,obj_size\n1,2,3\n1,junk,3\n").unwrap();
    let said = simulate().bad();
    assert!(said.contains("trace.csv: line 3 has no whole number as the id"), "{said}");
}

#[test]
fn wrong_input_gets_a_sentence_that_says_what_to_do() {
    for (args, expected) in [
        (&["sim"][..], "--workload"),
        (&["sim", "--workload", "uniform", "--trace", "x"], "cannot be used with"),
        (&["sim", "--trace", "/no/such/file"], "/no/such/file"),
        (&["sim", "--workload", "uniform", "--policies", "lur"], "did you mean lru?"),
        (&["sim", "--workload", "uniform", "--cache", "1.5"], "share of all items"),
        (&["sim", "--workload", "uniform", "--items", "0"], "at least one item"),
        (&["sim", "--workload", "uniform", "--items", "4000000000"], "fewer items or epochs"),
        (&["sim", "--workload", "uniform", "--epochs", "3", "--skip", "3"], "leaves nothing to count"),
        (&["sim", "--workload", "sbp", "--beta", "nan"], "not NaN"),
        (&["sim", "--workload", "jobs", "--jobs", "2", "--rates", "1,1,1"], "--rates has 3 values for 2 jobs"),
        (&["sim", "--workload", "jobs", "--window", "1.5"], "neither a number of items nor a share"),
    ] {
        let said = run(fodder().args(args)).bad();
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}
