//! The program `fodder`. Everything it does is in the library beside it.

fn main() -> std::process::ExitCode {
    fodder::run()
}
