// Package frontend holds what every frontend does alike, once: how lines of
// somebody who is not trusted are read and checked, how a working folder is
// found by the name that a client gave, what a command's directory and
// environment are, what an error is called, how a listener goes on when it has no
// descriptor left ([Accept]), and what the actor of a connection does ([Connection]).
//
// A frontend (stdio, mcp, control) is the form of a conversation: its messages,
// its limits, its order. Everything else belongs here, because a rule that
// stands in two places becomes two rules. The package knows no protocol and no session.
//
// Trust: nothing that a client sends is trusted. A line is bounded before it is kept
// ([Lines]), its shape is bounded before anything is made of it ([CheckJSON]),
// and a name that it holds is only compared, never opened.
//
// Crashes: the actor of a connection restarts with the session's strategy, but its
// connection ends: its calls are cancelled and its frontend is told. Other
// connections and the session go on.
//
// Functions are safe for concurrent use; a [Lines] belongs to one goroutine.
package frontend
