package resource

import (
	"encoding/json"
	"net"

	"github.com/holdfastlock/holdfast/torture/history"
)

// Client asks a Server. It is for one goroutine at a time.
type Client struct {
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

// Dial connects to the server of the socket.
func Dial(path string) (*Client, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return &Client{conn, json.NewDecoder(conn), json.NewEncoder(conn)}, nil
}

// Do sends a touch, read or write, which is its Call, and returns the Outcome
// and Version of its Return.
func (c *Client) Do(request history.Event) (answer history.Event, err error) {
	if err := c.out.Encode(request); err != nil {
		return answer, err
	}
	err = c.in.Decode(&answer)
	return answer, err
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
