//! `fodder warm` against a running node and without one.

mod example;
mod mounted;
mod run;
mod slurm;
