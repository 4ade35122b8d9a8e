package open

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
)

// security reads what the URL says of TLS; nil means none. Its parameters are
// named as the flags of redis-cli. The name that the server's certificate must
// have is the host's, of each server its own, unless sni gives one for all.
func (u redisURL) security() (*tls.Config, error) {
	if !u.secure {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.query.Get("sni")}
	var err error
	if config.InsecureSkipVerify, err = boolean(u.query, "skip_verify"); err != nil {
		return nil, err
	}
	if config.RootCAs, err = authorities(u.query.Get("cacert")); err != nil {
		return nil, err
	}
	config.Certificates, err = certificate(u.query.Get("cert"), u.query.Get("key"))
	return config, err
}

// authorities reads a file of certificates; none means those of the system.
func authorities(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, bad("cacert: %v", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, bad("cacert: %s has no certificate in PEM", path)
	}
	return pool, nil
}

// certificate reads that of the client.
func certificate(cert, key string) ([]tls.Certificate, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, bad("cert and key belong together: the file of the client's certificate, and of its key")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, bad("cert and key: %v", err)
	}
	return []tls.Certificate{pair}, nil
}

// dialSocket connects to a socket of this machine.
func dialSocket(ctx context.Context, path string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
	return dialer.DialContext(ctx, "unix", path)
}
