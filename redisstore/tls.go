package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/holdfastlock/holdfast/driver"
)

// What TLS has to say, told so that it can be mended.

// dialTLS connects and agrees on TLS.
func dialTLS(ctx context.Context, address string, d *net.Dialer, secure *tls.Config) (net.Conn, error) {
	conn, err := (&tls.Dialer{NetDialer: d, Config: secure}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, handshakeFault(err)
	}
	return conn, nil
}

// handshakeFault gives the failure of a handshake its meaning. An address that
// can't be reached is no such failure.
func handshakeFault(err error) error {
	network, operation := errors.AsType[*net.OpError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case operation && network.Op == "dial":
		return err
	case untrusted:
		return &driver.Error{Kind: driver.ErrMisconfigured, Err: err, Hint: "check the CA, and that the address is the certificate's"}
	case operation && network.Op == "remote error":
		return &driver.Error{Kind: driver.ErrRefused, Err: err, Hint: "the server may want a client certificate"}
	case errors.Is(err, context.DeadlineExceeded):
		return &driver.Error{
			Kind: driver.ErrUnreachable, Err: errors.New("no answer to a TLS handshake"),
			Hint: "the server may not speak TLS here",
		}
	default:
		return err
	}
}

// early adds a hint where a server has ended a connection before it said
// anything: with TLS 1.3 it looks at the client's certificate after the handshake.
func (w *watchedConn) early(err error) error {
	network, is := errors.AsType[net.Error](err)
	if err == nil || w.heard.Load() || errors.Is(err, net.ErrClosed) || is && network.Timeout() {
		return err
	}
	hint := "the server ended the connection before its first answer: it may speak nothing but TLS"
	if w.secure {
		hint = "the server ended the connection before its first answer: it may want a client certificate"
	}
	return &driver.Error{Kind: driver.ErrUnreachable, Err: err, Hint: hint}
}

func (w *watchedConn) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 && !w.heard.Load() {
		w.heard.Store(true)
	}
	return n, w.early(err)
}

func (w *watchedConn) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	return n, w.early(err)
}
