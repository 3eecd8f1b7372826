//! Hands descriptors over a Unix socket: the standard input, output and error of a program, and at most one more that the helper
//! holds until its end. The runner hands them to the helper, and the helper the first three to the process that becomes the
//! program, so that no descriptor is inherited by number.
//!
//! Invariant: descriptors that were received are closed on exec.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::{
    io::FdFlags,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags,
    },
};

/// Input, output and error.
const COUNT: usize = 3;

/// Most descriptors that are handed over.
const MOST: usize = COUNT + 1;

/// Goes with them: descriptors alone are no message.
const WITH: &[u8] = b"s";

/// What is received: the program's descriptors, and the one that is held.
type Received = ([OwnedFd; COUNT], Option<OwnedFd>);

/// Sends them, at most four.
pub(crate) fn send_stdio(socket: &UnixStream, stdio: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(stdio)) {
        return Err(io::Error::other(
            "there are too many descriptors to be handed over",
        ));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(WITH)], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Waits for them; `None`: the other side has closed the socket.
pub(super) fn receive_stdio(socket: &UnixStream) -> io::Result<Option<Received>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut with = [0; WITH.len()];
    let received = rustix::io::retry_on_intr(|| {
        let mut into = [IoSliceMut::new(&mut with)];
        rustix::net::recvmsg(socket, &mut into, &mut ancillary, RecvFlags::empty())
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::with_capacity(MOST);
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    for descriptor in &descriptors {
        rustix::io::fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    }
    let held = (descriptors.len() == MOST).then(|| descriptors.pop()).flatten();
    let stdio = descriptors.try_into();
    stdio
        .map(|stdio| Some((stdio, held)))
        .map_err(|descriptors: Vec<OwnedFd>| {
            io::Error::other(format!(
                "{} descriptors came, expected {COUNT}",
                descriptors.len()
            ))
        })
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read as _, Write as _},
        os::fd::AsFd as _,
    };

    use super::*;

    #[test]
    fn descriptors_arrive_and_an_end_is_seen() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let nothing = File::open("/dev/null").unwrap();
        send_stdio(&one, &[nothing.as_fd(), writer.as_fd(), nothing.as_fd()]).unwrap();
        drop((one, writer));
        let ([_, output, _], held) = receive_stdio(&other).unwrap().unwrap();
        assert!(held.is_none());
        let flags = rustix::io::fcntl_getfd(&output).unwrap();
        assert!(flags.contains(FdFlags::CLOEXEC));
        File::from(output).write_all(b"said").unwrap();
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(said, "said");
        assert!(receive_stdio(&other).unwrap().is_none());
    }
}
