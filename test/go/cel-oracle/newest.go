package main

import (
	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

func base() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
}

// In mutations only.
func patches() []cel.EnvOption {
	return []cel.EnvOption{library.JSONPatch()}
}
