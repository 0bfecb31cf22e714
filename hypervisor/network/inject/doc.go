// Package inject adds secrets to requests on their way out, so that programs inside can
// use a service without having its key.
//
// A [Rule] names one host, one header and its value, which comes from variables of the
// host's environment. For connections to just these hosts an [Injector] ends TLS with a
// certificate of its own, replaces the header in each request, and sends the request on
// over TLS that is verified against the host's roots. HTTP/1.1 and HTTP/2, WebSockets
// among it, are understood. All other connections are none of its business.
//
// # Trust
//
// The certificates are signed by a key that is made for the session and exists in the
// supervisor's memory only. Its own certificate is constrained to the hosts of the rules,
// so that it is good for nothing else. Requests are hostile: they are parsed and written
// anew, one for another host is refused (421), and so are TRACE and CONNECT, whose
// answers may repeat headers. Values are never part of an error, of a log or of what a
// Rule or an Injector prints. A server that repeats a header in its answer tells the
// secret; that cannot be known here.
package inject
