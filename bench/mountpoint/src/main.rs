//! Mountpoint for Amazon S3, mounted for the benchmark of peers: `fodder-bench-mountpoint BUCKET ENDPOINT DIR CACHE`.
//!
//! As its own program mounts a bucket with `--cache` and `--metadata-ttl indefinite`; everything else as it is by default.
//! Ends when it is unmounted.

use anyhow::{Context, Result};
use mountpoint_s3_client::{
    config::{AddressingStyle, S3ClientAuthConfig},
    user_agent::UserAgent,
};
use mountpoint_s3_fs::{
    MountpointConfig, Runtime, S3FilesystemConfig, Superblock, SuperblockConfig,
    data_cache::{CacheLimit, DataCacheConfig, DiskDataCacheConfig, ManagedCacheDir},
    fs::{CacheConfig, TimeToLive},
    fuse::config::{FuseOptions, FuseSessionConfig, MountPoint},
    memory::{CandidateSize, PagedPool},
    s3::{
        Bucket, S3Path,
        config::{ClientConfig, MemoryLimitSetting, PartConfig, Region, TargetThroughputSetting},
    },
};

const PART_BYTES: usize = 8 << 20;
const BLOCK_BYTES: u64 = 1 << 20;
const MEMORY_BYTES: usize = 4 << 30;
const THREADS: usize = 16;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bucket, endpoint, dir, cache] = arguments.as_slice() else {
        anyhow::bail!("usage: fodder-bench-mountpoint BUCKET ENDPOINT DIR CACHE");
    };
    let client = ClientConfig {
        region: Region::new_user_specified("us-east-1".into()),
        endpoint_url: Some(endpoint.clone()),
        addressing_style: AddressingStyle::Path,
        dual_stack: false,
        transfer_acceleration: false,
        auth_config: S3ClientAuthConfig::NoSigning,
        requester_pays: false,
        expected_bucket_owner: None,
        throughput_target: TargetThroughputSetting::Default,
        bind: None,
        part_config: PartConfig::with_part_size(PART_BYTES).validate(MemoryLimitSetting::Default(MEMORY_BYTES))?,
        user_agent: UserAgent::new(None),
        tls_config: None,
    };
    let part = CandidateSize::new(client.part_config.read_size_bytes);
    let pool = PagedPool::config().with_candidate_sizes([part]).with_memory_limit(MEMORY_BYTES).build();
    let client = client.create_client(pool.clone(), None)?;
    let runtime = Runtime::new(client.event_loop_group());

    let cache_config = CacheConfig::new(TimeToLive::Indefinite);
    let filesystem = S3FilesystemConfig { cache_config: cache_config.clone(), read_only: true, ..Default::default() };
    let superblock = SuperblockConfig { cache_config, s3_personality: filesystem.s3_personality };
    let path = S3Path::new(Bucket::new(bucket)?, Default::default());
    let superblock = Superblock::new(client.clone(), path, superblock);

    let cache = ManagedCacheDir::new_from_parent_with_cache_key(cache, None, true).context("no cache")?;
    let limit = CacheLimit::default();
    let disk = DiskDataCacheConfig { cache_directory: cache.as_path_buf(), block_size: BLOCK_BYTES, limit };
    let data = DataCacheConfig { disk_cache_config: Some(disk), express_cache_config: None };
    let fuse = FuseOptions { read_only: true, ..Default::default() };
    let fuse = FuseSessionConfig::new(MountPoint::new(dir)?, fuse, THREADS)?;
    let session = MountpointConfig::new(fuse, filesystem, data)?.create_fuse_session(superblock, client, runtime, pool)?;
    session.join().context("the mount ended badly")
}
