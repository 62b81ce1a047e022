//! The program `fodder`. Everything it does is in the library beside it.

/// Gives memory back to the system soon after a burst, where the C library's would keep it for each thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    fodder::run()
}
