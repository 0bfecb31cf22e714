// Package cluster tries the gateway at a real API server of Kubernetes with a real etcd, and agent-sandbox's own resource definitions and controller. Nothing of the cluster is played but its nodes: there is no kubelet and no
// container, so the test binds the pods, runs "sandbox serve" for each, with the command of packaging/kubernetes/warmpool.yaml, and says by the pod's status where it is; and it deletes what has no owner any more.
//
// All of it lives in a network namespace, where each pod has an address of its own. It needs root.
//
// The tests have the build tag cluster: make test-cluster (tests/cluster.sh) builds the programs from the Go module proxy, and runs them. CI does not.
package cluster
