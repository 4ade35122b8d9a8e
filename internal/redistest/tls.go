package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority is a certificate authority for tests: it has signed a certificate
// for servers on the loopback interface and one for clients. Each lies in a file.
type Authority struct {
	dir    string
	roots  *x509.CertPool
	client tls.Certificate
}

// Pair says where a certificate and its key are.
type Pair struct{ Cert, Key string }

// NewAuthority makes an authority with all its files in dir, valid for a day.
func NewAuthority(dir string) (*Authority, error) {
	a := &Authority{dir: dir, roots: x509.NewCertPool()}
	root := template("CA")
	root.IsCA, root.BasicConstraintsValid = true, true
	root.KeyUsage = x509.KeyUsageCertSign
	rootKey, err := a.issue(root, "ca", root, nil)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(a.CA())
	if err != nil {
		return nil, err
	}
	a.roots.AppendCertsFromPEM(text)

	// A server of a cluster is a client of the others.
	server := template("server")
	server.IPAddresses, server.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if _, err := a.issue(server, "server", root, rootKey); err != nil {
		return nil, err
	}
	client := template("client")
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := a.issue(client, "client", root, rootKey); err != nil {
		return nil, err
	}
	a.client, err = tls.LoadX509KeyPair(a.Client().Cert, a.Client().Key)
	return a, err
}

// template says what certificates have in common.
func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // never fails
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "holdfast test " + name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

// issue writes the files of a certificate that the parent's key signs, or its
// own if that is nil, and returns its key.
func (a *Authority) issue(cert *x509.Certificate, name string, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if signer == nil {
		signer = key
	}
	signed, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := writePEM(a.pair(name).Key, "PRIVATE KEY", secret); err != nil {
		return nil, err
	}
	return key, writePEM(a.pair(name).Cert, "CERTIFICATE", signed)
}

func writePEM(path, kind string, content []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
}

func (a *Authority) pair(name string) Pair {
	return Pair{Cert: filepath.Join(a.dir, name+".pem"), Key: filepath.Join(a.dir, name+".key")}
}

// CA returns the path of the authority's own certificate.
func (a *Authority) CA() string { return a.pair("ca").Cert }

// Server returns the files of the servers' certificate.
func (a *Authority) Server() Pair { return a.pair("server") }

// Client returns the files of the clients' certificate.
func (a *Authority) Client() Pair { return a.pair("client") }

// Config trusts the authority and, if asked, shows the client's certificate. It
// is nil for no authority.
func (a *Authority) Config(certificate bool) *tls.Config {
	if a == nil {
		return nil
	}
	config := &tls.Config{RootCAs: a.roots, MinVersion: tls.VersionTLS12}
	if certificate {
		config.Certificates = []tls.Certificate{a.client}
	}
	return config
}
