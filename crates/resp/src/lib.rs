//! The Redis wire format, RESP2 and RESP3: encoding and decoding, no I/O.
