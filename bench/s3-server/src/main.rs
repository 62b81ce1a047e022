//! Serves the files below a directory as an S3 bucket, for benchmarks.

use clap::Parser;
use fodder_s3_server::Server;
use std::path::PathBuf;

/// Serves the files below a directory as an S3 bucket of any name, path-style, without checking signatures.
#[derive(Debug, Parser)]
struct Arguments {
    /// The directory.
    #[arg(long)]
    dir: PathBuf,
    /// Where to listen; port 0 picks a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let server = Server::start_dir(&arguments.listen, &arguments.dir).await?;
    println!("{}", server.endpoint());
    server.wait().await;
    Ok(())
}
