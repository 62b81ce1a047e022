//! What a configuration file may say, what comes of mistakes, and that the documented example is true.

use super::*;
use fodder_server::cluster::Way;
use std::collections::BTreeSet;

const DOCUMENT: &str = include_str!("../../../../docs/CONFIGURATION.md");
/// iCache's own example.
const ICACHE: &str = r#"
# Node configuration
node: "10.0.16.20"
uuid: ""
restport: 18283
restadminport: 18285
rpcport: 18284
gossipport: 18282
cache_ratio: 0.2
cache_type: "lru"
dcserver_data_path: "/path/to/training/data"
async_building_task: 300
package_design: true
loading_cache_size: 450
etcd_nodes: "10.0.16.20"
debug: false
enableadmin: false
"#;

fn problem(text: &str) -> String {
    parse(text).unwrap_err().shown_in("fodder.yaml", text)
}

/// The first YAML block of the document.
fn example() -> &'static str {
    DOCUMENT.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("the document has an example")
}

/// The example with every setting that is commented out (`#key: value`, no space) put to use.
fn full_example() -> String {
    let uncomment = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        match line.trim_start().strip_prefix('#') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '-') => {
                format!("{}{rest}\n", &line[..indent])
            }
            _ => format!("{line}\n"),
        }
    };
    example().lines().map(uncomment).collect()
}

fn keys(value: &serde_yaml_ng::Value, prefix: &str, into: &mut BTreeSet<String>) {
    match value {
        serde_yaml_ng::Value::Mapping(mapping) => {
            for (key, value) in mapping {
                let path = format!("{prefix}.{}", key.as_str().unwrap());
                into.insert(path.clone());
                keys(value, &path, into);
            }
        }
        serde_yaml_ng::Value::Sequence(values) => values.iter().for_each(|value| keys(value, prefix, into)),
        _ => {}
    }
}

#[test]
fn the_documented_example_equals_the_defaults() {
    assert_eq!(parse(example()).unwrap(), (Config::default(), Vec::new()));
}

#[test]
fn the_documented_example_names_every_setting() {
    let (config, _) = parse(&full_example()).unwrap();
    assert!(config.cache_size.is_some() && config.log.file.is_some() && !config.engine.tiers.is_empty());
    let [mut documented, mut written] = [BTreeSet::new(), BTreeSet::new()];
    keys(&serde_yaml_ng::from_str(&full_example()).unwrap(), "", &mut documented);
    keys(&serde_yaml_ng::to_value(&config).unwrap(), "", &mut written);
    assert_eq!(documented, written);
}

#[test]
fn an_empty_file_changes_nothing() {
    for text in ["", "# nothing\n", "---\n"] {
        assert_eq!(parse(text).unwrap().0, Config::default(), "{text:?}");
    }
}

#[test]
fn a_misspelt_key_gives_its_line_and_a_suggestion() {
    let text = "engine:\n  cache_dri: /x\nlog:\n  level: info\n";
    let shown = problem(text);
    assert!(shown.starts_with("fodder.yaml:2: "), "{shown}");
    assert!(shown.contains("unknown setting `engine.cache_dri`; did you mean `cache_dir`?"), "{shown}");
    let text = "datasets:\n  - name: a\n    origin: /x\n  - name: b\n    origin: /x\n    polcy: lru\n";
    let shown = problem(text);
    assert!(shown.starts_with("fodder.yaml:6: "), "{shown}");
    assert!(shown.contains("`datasets[1].polcy`; did you mean `policy`?"), "{shown}");
    let shown = problem("zebra: 1\n");
    assert!(shown.contains("known are cache_size, engine, node, cluster, datasets, log"), "{shown}");
}

#[test]
fn a_wrong_value_says_what_is_expected() {
    for (text, expected) in [
        ("engine:\n  origin_concurrency: many\n", "fodder.yaml:2: engine.origin_concurrency: expected a whole number"),
        ("engine:\n  memory_budget: 3 bananas\n", "is not a size such as 20GiB, 500MB or 4096"),
        ("engine:\n  memory_budget: -1\n", "expected a size such as 20GiB, 500MB or 4096"),
        ("engine:\n  slow_read: 5\n", "a duration such as 30s or 5m"),
        ("engine:\n  slow_read: soon\n", "is not a duration such as 30s or 5m"),
        ("cache_size: 120%\n", "at most 100%"),
        ("datasets:\n  - name: x\n", "the setting `datasets[0].origin` is missing"),
        ("datasets: /data\n", "expected a list"),
        ("engine: /data\n", "expected settings below it"),
        ("node:\n  rest: 18283\n", "node.rest: "),
        ("log:\n  format: xml\n", "log.format: unknown value \"xml\""),
        ("datasets:\n  - {name: x, origin: /x, policy: lur}\n", "lru"),
        ("datasets:\n  - {name: x, origin: /x, layout: folders}\n", "choose one of files"),
        ("engine:\n  tiers:\n    - {path: /x, medium: FLOPPY, quota: 1GiB}\n", "MEM"),
        ("a: [\n", "fodder.yaml:2: not valid YAML: "),
    ] {
        let shown = problem(text);
        assert!(shown.contains(expected), "{text:?} gave {shown:?}");
    }
}

#[test]
fn a_line_with_credentials_is_not_repeated() {
    let text = "datasets:\n  - {name: x, origin: 'https://me:secret@host/x', polcy: lru}\n";
    assert!(!problem(text).contains("secret"), "{}", problem(text));
}

#[test]
fn flags_win_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("fodder.yaml");
    std::fs::write(&file, "cache_size: 1GiB\nengine: {cache_dir: /from/file}\nnode: {rest: '127.0.0.1:1'}\n").unwrap();
    let mut args = ServeArgs { config: Some(file), ..ServeArgs::default() };
    let config = Effective::new(&args).unwrap().config;
    assert_eq!(config.engine.cache_dir, Path::new("/from/file"));
    assert_eq!(config.engine.tiers[0].quota_bytes, 1 << 30);
    args.cache_dir = Some("/from/flag".into());
    args.cache_size = Some(Quota::Bytes(2 << 30));
    let config = Effective::new(&args).unwrap().config;
    assert_eq!(config.engine.cache_dir, Path::new("/from/flag"));
    assert_eq!(config.engine.tiers[0].quota_bytes, 2 << 30);
    assert_eq!(config.node.rest.port(), 1);
}

#[test]
fn a_share_is_each_datasets_quota_and_not_the_tiers() {
    let args = ServeArgs { origin: Some("/data".into()), cache_size: Some(Quota::Share(0.2)), ..ServeArgs::default() };
    let effective = Effective::new(&args).unwrap();
    assert_eq!(effective.config.datasets[0].quota, Some(Quota::Share(0.2)));
    assert_eq!(effective.auto_bytes, Some(effective.config.engine.tiers[0].quota_bytes));
}

#[test]
fn what_is_shown_is_accepted_again_and_means_the_same() {
    let args = ServeArgs {
        origin: Some("./data".into()),
        tiers: vec!["/a:HDD:1TiB".parse().unwrap(), "/b:MEM:1GiB".parse().unwrap()],
        ..ServeArgs::default()
    };
    let config = Effective::new(&args).unwrap().config;
    assert_eq!(config.engine.tiers[0].medium, Medium::Mem);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("shown.yaml");
    std::fs::write(&file, serde_yaml_ng::to_string(&config).unwrap()).unwrap();
    let again = Effective::new(&ServeArgs { config: Some(file), ..ServeArgs::default() }).unwrap().config;
    assert_eq!(again, config);
}

#[test]
fn contradictions_are_refused_with_what_to_do() {
    let tier = |text: &str| text.parse().unwrap();
    let with = |change: &dyn Fn(&mut ServeArgs)| {
        let mut args = ServeArgs { cache_dir: Some("/c".into()), ..ServeArgs::default() };
        change(&mut args);
        format!("{:#}", Effective::new(&args).unwrap_err())
    };
    let both = with(&|args| {
        args.tiers = vec![tier("/a:SSD:1GiB")];
        args.cache_size = Some(Quota::Bytes(1 << 30));
    });
    assert!(both.contains("leave out cache_size (--cache-size)"), "{both}");
    let overlap = with(&|args| args.tiers = vec![tier("/a:SSD:1GiB"), tier("/a/b:HDD:1GiB")]);
    assert!(overlap.contains("overlap"), "{overlap}");
    let small = with(&|args| args.cache_size = Some(Quota::Bytes(1)));
    assert!(small.contains("less than 16 MiB"), "{small}");
    let long = with(&|args| args.socket = Some(format!("/{}", "x".repeat(200)).into()));
    assert!(long.contains("--socket"), "{long}");
    let name = with(&|args| {
        args.origin = Some("/data".into());
        args.name = Some("no/slash".into());
    });
    assert!(name.contains("letters, digits"), "{name}");
    let restless = with(&|args| {
        args.origin = Some("/data".into());
        args.refresh = Some(std::time::Duration::ZERO);
    });
    assert!(restless.contains("(--refresh) must not be 0"), "{restless}");
}

#[test]
fn two_datasets_of_one_name_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("fodder.yaml");
    std::fs::write(&file, "datasets:\n  - {name: x, origin: /a}\n  - {name: x, origin: /b}\n").unwrap();
    let error = Effective::new(&ServeArgs { config: Some(file), ..ServeArgs::default() }).unwrap_err();
    assert!(error.to_string().contains("two datasets are called \"x\""), "{error}");
}

#[test]
fn icaches_own_example_is_read_as_what_it_means() {
    let (config, notes) = parse(ICACHE).unwrap();
    assert_eq!(config.node.rest.to_string(), "10.0.16.20:18283");
    assert_eq!(config.node.grpc.to_string(), "10.0.16.20:18284");
    let [dataset] = &config.datasets[..] else { panic!("{:?}", config.datasets) };
    assert_eq!(dataset.origin, "/path/to/training/data");
    assert_eq!(dataset.name, "data");
    assert_eq!(dataset.policy, fodder_policy::Policy::Lru);
    assert_eq!(dataset.quota, Some(Quota::Share(0.2)));
    assert_eq!(config.log, LogConfig::default());
    let about: Vec<_> = notes.iter().map(|note| note.split(' ').next().unwrap()).collect();
    let expected = ["restadminport", "async_building_task", "loading_cache_size", "gossipport"];
    assert_eq!(about, expected);
    assert_eq!((config.cluster.membership, &config.cluster.join[..]), (Way::Etcd, &["10.0.16.20".to_owned()][..]));
    let (config, notes) = parse("node: 127.0.0.1\netcd_nodes: 10.0.16.20\n").unwrap();
    assert!(!config.cluster.is_in_use() && notes[0].contains("no other machine reaches"), "{notes:?}");
}

#[test]
fn icaches_ports_take_effect_or_are_refused_with_a_reason() {
    let (config, notes) = parse("node: 10.0.0.1\nrpcport: 1\ncluster: 10.0.0.2\ngossipport: 18299\n").unwrap();
    assert_eq!((config.cluster.membership, notes), (Way::Gossip, vec![]));
    assert_eq!(config.cluster.gossip, Some("10.0.0.1:18299".parse().unwrap()));
    assert_eq!(config.cluster.join, ["10.0.0.2:18299"]);

    // As in the file that iCache is shipped with.
    let (config, notes) = parse("name: \"\"\nnode: 127.0.0.1\ncluster: \"\"\ngossipport: 18282\n").unwrap();
    assert!(!config.cluster.is_in_use() && config.cluster.gossip.is_none());
    assert_eq!(notes, ["gossipport has no effect: cluster names no node to gossip with"]);
    let (_, notes) = parse("node: 127.0.0.1\ncluster: 10.0.0.2\ngossipport: 18282\n").unwrap();
    assert!(notes[0].contains("no other machine reaches"), "{notes:?}");

    let (_, notes) = parse("rpcport: 1\nrestadminport: 18285\nenableadmin: false\n").unwrap();
    assert!(notes[0].starts_with("restadminport has no effect: administration is on the REST port"), "{notes:?}");
    let shown = problem("rpcport: 1\nenableadmin: true\n");
    assert!(shown.contains("fodder.yaml:2: enableadmin: there is no separate admin server"), "{shown}");
    assert!(problem("rpcport: 1\ngossipport: 99999\n").contains("gossipport"));
}

#[test]
fn package_design_decides_whether_samples_are_replaced() {
    assert!(parse("rpcport: 1\n").unwrap().0.node.icache.package_design);
    assert!(parse("rpcport: 1\npackage_design: true\n").unwrap().0.node.icache.package_design);
    assert!(!parse("rpcport: 1\npackage_design: false\n").unwrap().0.node.icache.package_design);
}

#[test]
fn icaches_cache_types_become_their_policy() {
    use fodder_policy::Policy;
    for (kind, policy) in [
        ("lru", Policy::Lru),
        ("coordl", Policy::Minio),
        ("lfu", Policy::Lfu),
        ("isa", Policy::Importance),
        ("quiver", Policy::Quiver),
        ("semantic", Policy::Semantic),
    ] {
        let (config, notes) = parse(&format!("dcserver_data_path: /x\ncache_type: {kind}\n")).unwrap();
        assert_eq!(config.datasets[0].policy, policy, "{kind}");
        assert!(notes.is_empty(), "{kind}: {notes:?}");
    }
}

#[test]
fn mistakes_in_icaches_file_are_told_like_those_in_ours() {
    for (text, expected) in [
        (
            "rpcport: 18284\ncache_ration: 0.2\n",
            "fodder.yaml:2: unknown setting `cache_ration`; did you mean `cache_ratio`?",
        ),
        ("rpcport: 18284\ncache_ratio: 20\n", "fodder.yaml:2: cache_ratio: must be above 0 and at most 1, not 20"),
        ("rpcport: 18284\ncache_type: cordl\n", "did you mean `coordl`?"),
        ("rpcport: 18284\nnode: \"not an address\"\n", "is not an IP address"),
        ("rpcport: 99999\n", "rpcport: "),
    ] {
        let shown = problem(text);
        assert!(shown.contains(expected), "{text:?} gave {shown:?}");
    }
}

#[test]
fn every_key_of_icaches_is_in_the_document() {
    for key in super::icache::KEYS {
        assert!(DOCUMENT.contains(&format!("| `{key}` |")), "{key} is not mapped in docs/CONFIGURATION.md");
    }
}

#[test]
fn every_key_of_the_semantic_cache_is_mapped_to_a_setting_that_there_is() {
    let rows = [
        ("working_set_size", "quota"),
        ("replication_factor", "cluster.replicas"),
        ("hnsw_M", "tuning.semantic.m"),
        ("hnsw_ef_construction", "tuning.semantic.ef"),
        ("similarity_threshold", "tuning.semantic.similarity"),
    ];
    for (key, setting) in rows {
        let row = format!("| `{key}` | `{setting}`");
        assert!(DOCUMENT.contains(&row), "{key} is not mapped to {setting} in docs/CONFIGURATION.md");
    }
    assert!(DOCUMENT.contains("Nodes replace Redis") && DOCUMENT.contains("| Redis ports 6379, 6380, 6381 |"));
    let text = "cluster: { replicas: 2 }\ndatasets:\n  - name: x\n    origin: /x\n    quota: 10%\n    policy: semantic\n    \
                tuning: { semantic: { m: 9, ef: 90, similarity: 0.9 } }\n";
    let (config, notes) = parse(text).unwrap();
    let (dataset, semantic) = (&config.datasets[0], config.datasets[0].tuning.semantic);
    assert_eq!((config.cluster.replicas, dataset.quota, notes), (2, Some(Quota::Share(0.1)), vec![]));
    assert_eq!((semantic.m, semantic.ef, serde_json::json!(semantic.similarity)), (9, 90, serde_json::json!(0.9)));
}
