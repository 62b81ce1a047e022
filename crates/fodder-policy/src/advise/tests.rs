//! Advice for jobs that wait for different things.

use super::*;
use crate::permutation::Permutation;
use proptest::prelude::*;

/// A fifth of 5 GB cached, 100 KB items over a full line of 100 MB/s: a job that could take 3,000 items a second.
pub(super) fn measured() -> Measured {
    Measured {
        items_per_second: 1_250.0,
        cached_items_per_second: Some(3_000.0),
        item_bytes: 100_000.0,
        miss_seconds: 0.064,
        misses_at_once: 64.0,
        origin_bytes_per_second: 100e6,
        dataset_bytes: 5_000_000_000,
        cache_bytes: 1_000_000_000,
        hit_ratio: 0.2,
        policy: Policy::Minio,
        waits: Waits { storage: 98.0, own: 2.0, ..Waits::default() },
    }
}

/// Six epochs over 50,000 items of 100 KB.
pub(super) fn epochs() -> AccessSample {
    let mut sample = AccessSample::default();
    for epoch in 0..6 {
        let order = Permutation::new(50_000, 1, epoch);
        (0..50_000).filter_map(|position| order.at(position)).for_each(|id| sample.record(id, 100_000));
    }
    sample
}

#[test]
fn a_job_that_waits_for_storage_is_told_what_helps_most() {
    let advice = advise(&measured(), &Curves::of(&epochs()));
    assert_eq!((advice.limit, advice.policy), (Some(Limit::Storage), Some(Policy::Minio)));
    let expected = "\
The job waits for storage 98 % of its time, and takes 1250 items/s of the 3000 it takes with everything cached.
It would be 1.96 times as fast with twice the bandwidth, and 1.33 times as fast with twice the cache.

                          hits     items/s    speed
now                      0.200        1250    1.00×
half the cache           0.099        1110    0.89×
twice the cache          0.402        1660    1.33×
half the bandwidth       0.200         625    0.50×
twice the bandwidth      0.200        2451    1.96×
";
    assert_eq!(advice.to_string(), expected);
}

#[test]
fn a_job_under_the_wrong_policy_is_told_the_right_one() {
    let lru = Measured { policy: Policy::Lru, hit_ratio: 0.022, items_per_second: 1_022.0, ..measured() };
    let advice = advise(&lru, &Curves::of(&epochs()));
    assert_eq!(advice.policy, Some(Policy::Minio));
    let row = advice.rows.last().expect("there are rows");
    assert_eq!(row.what, "policy minio");
    assert!((row.hit_ratio - 0.2).abs() < 0.02 && row.speed > Some(1.2), "{row:?}");
}

#[test]
fn a_job_that_waits_for_the_gpu_is_told_that_half_the_cache_would_do() {
    let waits = Waits { storage: 1.0, preprocessing: 4.0, gpu: 95.0, own: 0.0 };
    let busy = Measured { items_per_second: 500.0, cached_items_per_second: Some(505.0), waits, ..measured() };
    let advice = advise(&busy, &Curves::of(&epochs()));
    assert_eq!(advice.limit, Some(Limit::Gpu));
    let expected = [
        "The job waits for the GPU, and for storage only 1 % of its time: it takes 500 items/s of the 505 it takes with \
         everything cached.",
        "Neither more cache nor more bandwidth would make it faster, and half the cache would do.",
    ];
    assert_eq!(advice.sentences, expected);
}

#[test]
fn a_job_that_waits_for_preprocessing_is_told_so() {
    let waits = Waits { storage: 30.0, preprocessing: 60.0, gpu: 10.0, own: 0.0 };
    let advice = advise(&Measured { waits, ..measured() }, &Curves::of(&epochs()));
    assert!(advice.sentences[0].starts_with("The job waits for preprocessing, and for storage only 30 %"));
    assert!(advice.sentences[1].ends_with("; more preprocessing workers would help first."));
}

#[test]
fn what_cannot_be_told_apart_is_not_told_apart() {
    let waits = Waits { storage: 10.0, own: 90.0, ..Waits::default() };
    let measured = Measured { cached_items_per_second: None, waits, ..measured() };
    let advice = advise(&measured, &Curves::of(&epochs()));
    assert_eq!(advice.limit, Some(Limit::Own));
    let expected = [
        "The job spends 10 % of its time waiting for storage and the rest in preprocessing or on the GPU, which the node \
         cannot tell apart. It takes 1250 items/s; its speed with everything cached is not known yet.",
        "It would be up to 1.05 times as fast with twice the bandwidth, and up to 1.03 times as fast with twice the cache.",
    ];
    assert_eq!(advice.sentences, expected);
}

#[test]
fn with_everything_cached_nothing_is_said_of_misses_that_nobody_saw() {
    let waits = Waits { own: 60.0, ..Waits::default() };
    let cached = Measured {
        items_per_second: 3_000.0,
        hit_ratio: 1.0,
        miss_seconds: 0.0,
        cache_bytes: 6_000_000_000,
        waits,
        ..measured()
    };
    let advice = advise(&cached, &Curves::of(&epochs()));
    assert_eq!((advice.limit, advice.storage_share), (Some(Limit::Own), 0.0));
    let expected = "Neither more cache nor more bandwidth would make it faster; the effect of less cache is not \
     known before the first miss.";
    assert_eq!(advice.sentences[1], expected);
    let half = &advice.rows[1];
    assert_eq!((half.what.as_str(), half.speed), ("half the cache", None));
    assert!(
        advice.to_string().lines().any(|line| line.starts_with("half the cache") && line.ends_with('?')),
        "{advice}"
    );
}

#[test]
fn the_first_epoch_over_a_cache_with_room_is_told_to_wait_for_the_second() {
    let first = Measured { hit_ratio: 0.0, items_per_second: 1_000.0, cache_bytes: 6_000_000_000, ..measured() };
    let advice = advise(&first, &Curves::of(&AccessSample::default()));
    let expected = "It would be 3.00 times as fast with everything cached (there is room: it comes with the first epoch, \
                    or with fodder warm), and 1.96 times as fast with twice the bandwidth.";
    assert_eq!(advice.sentences[1], expected);
}

#[test]
fn without_enough_measurements_the_advice_says_what_to_do() {
    let expected = "Nothing of dataset \"pets\" has been read since the node started.\n\
                    Run the job for 10 s or a whole epoch, then run `fodder advise` again.\n";
    assert_eq!(Advice::too_little("pets", &TooLittle { seconds: 0.0 }).to_string(), expected);
    let expected = "Only 1.5 s of reads of dataset \"pets\" were observed, which is too little.\n\
                    Run the job for 10 s or a whole epoch, then run `fodder advise` again.\n";
    assert_eq!(Advice::too_little("pets", &TooLittle { seconds: 1.5 }).to_string(), expected);
}

proptest! {
    #[test]
    fn no_numbers_make_it_panic_or_say_nonsense(
        numbers in prop::array::uniform10(prop_oneof![any::<f64>(), 0.0..1e6]),
        (dataset_bytes, cache_bytes) in any::<(u64, u64)>(),
    ) {
        let [a, b, c, d, e, f, g, h, i, j] = numbers;
        let measured = Measured {
            items_per_second: a,
            cached_items_per_second: (b > 0.0).then_some(b),
            item_bytes: c,
            miss_seconds: d,
            misses_at_once: e,
            origin_bytes_per_second: f,
            dataset_bytes,
            cache_bytes,
            hit_ratio: g,
            policy: Policy::Auto,
            waits: Waits { storage: h, preprocessing: i, gpu: j, own: a },
        };
        let advice = advise(&measured, &Curves::of(&AccessSample::default()));
        prop_assert!(advice.rows.iter().all(|row| (0.0..=1.0).contains(&row.hit_ratio)), "{:?}", advice);
        prop_assert!(!advice.to_string().contains("NaN"), "{}", advice);
    }
}
