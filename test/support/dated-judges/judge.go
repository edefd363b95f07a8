// Verifies chains at a given time. Prints `ok` or the reason for each case in the folder.
package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func read(path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return text
}

func main() {
	folder := os.Args[1]
	at, err := time.Parse(time.RFC3339, os.Args[2])
	if err != nil {
		panic(err)
	}
	for index, host := range strings.Fields(string(read(filepath.Join(folder, "hosts")))) {
		roots, others := x509.NewCertPool(), x509.NewCertPool()
		roots.AppendCertsFromPEM(read(filepath.Join(folder, fmt.Sprintf("%d.bundle.pem", index))))
		block, rest := pem.Decode(read(filepath.Join(folder, fmt.Sprintf("%d.chain.pem", index))))
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			panic(err)
		}
		others.AppendCertsFromPEM(rest)
		options := x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: others, CurrentTime: at}
		if _, err := leaf.Verify(options); err != nil {
			fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok")
		}
	}
}
