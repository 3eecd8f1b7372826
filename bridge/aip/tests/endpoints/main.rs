//! Devices, constellations and hostile clients at a service, over WebSockets on the loopback.

mod clients;
mod fixture;
mod hostile;
mod losses;
mod transfers;
