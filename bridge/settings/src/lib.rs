//! The settings of gateways, and what a program says that one is left out of.
//!
//! A gateway is a crate that programs carry by a feature of its name. Its settings are here, apart from it, so that every
//! program reads the same configuration file, and refuses what it cannot do by the name of the setting that asks for it.
//! PURE.

#![forbid(unsafe_code)]

pub mod access;
pub mod bridge;
pub mod front;
pub mod part;
pub mod run;
