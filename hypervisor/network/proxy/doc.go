// Package proxy connects through the HTTP and SOCKS proxies that the host's environment
// names, so that guests need to know nothing of them: HTTPS_PROXY for port 443,
// HTTP_PROXY for port 80, ALL_PROXY for all ports (and for these two if they have none of
// their own), NO_PROXY for what is reached directly; in capitals or not. Loopback is
// always reached directly.
//
// A proxy is asked for a tunnel (CONNECT, or SOCKS5) by the name that the guest looked up,
// else by address. What comes out of it is the guest's stream as it is: TLS stays whole,
// and the password of the proxy stays outside.
//
// # Trust
//
// The host's environment is trusted, a proxy's answer is not: its head is bounded and
// nothing behind it is taken off the connection. Which address a name has is decided by
// the proxy; the policy has decided about the name, and about the address that our own
// lookup found.
package proxy
