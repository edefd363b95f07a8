// Command kstatus prints the status and the message of each object on standard input, as Flux, Helm and kpt judge it.
// Both the objects and the results are JSON, one on a line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	flux "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kpt "sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	results := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(lines.Bytes()); err != nil {
			return err
		}
		result, err := kpt.Compute(object)
		if err != nil {
			return err
		}
		// Helm and Flux use a fork.
		fork, err := flux.Compute(object)
		if err != nil {
			return err
		}
		if string(fork.Status) != string(result.Status) {
			return fmt.Errorf("%s %s is %s for kpt and %s for Flux and Helm", object.GetKind(), object.GetName(), result.Status, fork.Status)
		}
		if err := results.Encode(map[string]string{"status": string(result.Status), "message": result.Message}); err != nil {
			return err
		}
	}
	return lines.Err()
}
