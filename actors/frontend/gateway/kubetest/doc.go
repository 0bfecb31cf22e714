// Package kubetest plays an API server with agent-sandbox in tests: claims and Sandboxes with resource versions, watches, and what goes wrong with them.
//
//	s := kubetest.New(t)
//	s.OnCreate = func(c kube.Claim) { s.Ready(c, "10.0.0.1") } // as the controller would
//	client, err := kube.New(kube.Config{Server: s.URL})
//	s.Down(true) // connections break, and nobody answers
//
// It knows what the gateway asks for, and answers everything else with 404. Methods are safe for concurrent use.
package kubetest
