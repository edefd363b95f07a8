// Renders a Helm chart as `helm template` does, for machines without Helm: Go's text/template, sprig and the few functions that
// Helm adds. Takes the same arguments. No dependencies, no hooks, no schema: tests look at those by themselves.
//
//	helm-template template RELEASE CHART [--namespace N] [--kube-version V] [--api-versions V]... [-f FILE]... [--notes]
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type arguments struct {
	release, chart, namespace, kubeVersion string
	apiVersions, files                     []string
	notes                                  bool
}

func main() {
	given, err := parseArguments(os.Args[1:])
	if err == nil {
		err = run(given)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func parseArguments(words []string) (arguments, error) {
	given := arguments{namespace: "default", kubeVersion: "v1.34.0"}
	if len(words) < 3 || words[0] != "template" {
		return given, errors.New("usage: helm-template template RELEASE CHART [options]")
	}
	given.release, given.chart = words[1], words[2]
	for rest := words[3:]; len(rest) > 0; {
		if rest[0] == "--notes" {
			given.notes, rest = true, rest[1:]
			continue
		}
		if len(rest) < 2 {
			return given, fmt.Errorf("%s: a value is missing", rest[0])
		}
		switch rest[0] {
		case "--namespace":
			given.namespace = rest[1]
		case "--kube-version":
			given.kubeVersion = "v" + strings.TrimPrefix(rest[1], "v")
		case "--api-versions":
			given.apiVersions = append(given.apiVersions, rest[1])
		case "-f":
			given.files = append(given.files, rest[1])
		default:
			return given, fmt.Errorf("%s: not known", rest[0])
		}
		rest = rest[2:]
	}
	return given, nil
}

func run(given arguments) error {
	values, err := readYaml(filepath.Join(given.chart, "values.yaml"))
	if err != nil {
		return err
	}
	for _, file := range given.files {
		over, err := readYaml(file)
		if err != nil {
			return err
		}
		values = merge(values, over)
	}
	chart, err := readYaml(filepath.Join(given.chart, "Chart.yaml"))
	if err != nil {
		return err
	}
	return render(given, map[string]any{
		"Values":       values,
		"Chart":        fieldsOf(chart),
		"Release":      map[string]any{"Name": given.release, "Namespace": given.namespace, "Service": "Helm", "IsInstall": true, "IsUpgrade": false, "Revision": 1},
		"Capabilities": capabilitiesOf(given),
	})
}

// Helm reads values as JSON, so that every number is a float64: a template that prints one shows it here too.
func readYaml(file string) (map[string]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var read map[string]any
	if err := yaml.Unmarshal(text, &read); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	asJSON, err := json.Marshal(read)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	values := map[string]any{}
	return values, json.Unmarshal(asJSON, &values)
}

// Maps are merged, everything else is replaced, and null takes a default away.
func merge(base, over map[string]any) map[string]any {
	merged := map[string]any{}
	for key, value := range base {
		merged[key] = value
	}
	for key, value := range over {
		below, isMap := value.(map[string]any)
		was, wasMap := merged[key].(map[string]any)
		switch {
		case value == nil:
			delete(merged, key)
		case isMap && wasMap:
			merged[key] = merge(was, below)
		default:
			merged[key] = value
		}
	}
	return merged
}

// Templates say .Chart.AppVersion for what Chart.yaml calls appVersion.
func fieldsOf(chart map[string]any) map[string]any {
	fields := map[string]any{}
	for key, value := range chart {
		fields[strings.ToUpper(key[:1])+key[1:]] = value
	}
	return fields
}

type versionSet []string

func (set versionSet) Has(version string) bool {
	for _, known := range set {
		if known == version {
			return true
		}
	}
	return false
}

type kubeVersion struct{ Version, Major, Minor string }

func (version kubeVersion) String() string { return version.Version }

func capabilitiesOf(given arguments) map[string]any {
	parts := strings.Split(strings.TrimPrefix(given.kubeVersion, "v"), ".")
	known := append(versionSet{"v1", "apps/v1", "policy/v1"}, given.apiVersions...)
	return map[string]any{
		"KubeVersion": kubeVersion{given.kubeVersion, parts[0], parts[1]},
		"APIVersions": known,
	}
}

func render(given arguments, scope map[string]any) error {
	root := template.New("chart").Option("missingkey=zero")
	root.Funcs(functions(root))
	folder := filepath.Join(given.chart, "templates")
	names := []string{}
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		names = append(names, path)
		_, err = root.New(path).Parse(string(text))
		return err
	})
	if err != nil {
		return err
	}
	sort.Strings(names)
	for _, name := range names {
		isNotes := filepath.Base(name) == "NOTES.txt"
		if strings.HasPrefix(filepath.Base(name), "_") || isNotes != given.notes {
			continue
		}
		var out bytes.Buffer
		if err := root.ExecuteTemplate(&out, name, scope); err != nil {
			return err
		}
		// A value that is not there prints as this, which Helm takes out.
		text := strings.ReplaceAll(out.String(), "<no value>", "")
		if strings.TrimSpace(text) == "" {
			continue
		}
		if !isNotes {
			fmt.Println("---")
		}
		fmt.Println(strings.TrimSpace(text))
	}
	return nil
}

func functions(root *template.Template) template.FuncMap {
	known := sprig.TxtFuncMap()
	for _, absent := range []string{"env", "expandenv"} {
		delete(known, absent)
	}
	execute := func(name string, scope any) (string, error) {
		var out bytes.Buffer
		err := root.ExecuteTemplate(&out, name, scope)
		return out.String(), err
	}
	known["include"] = execute
	known["required"] = func(complaint string, value any) (any, error) {
		if value == nil || value == "" {
			return nil, errors.New(complaint)
		}
		return value, nil
	}
	known["fail"] = func(complaint string) (string, error) { return "", errors.New(complaint) }
	known["toYaml"] = toYaml
	known["toJson"] = func(value any) (string, error) {
		text, err := json.Marshal(value)
		return string(text), err
	}
	known["tpl"] = func(text string, scope any) (string, error) {
		one, err := template.Must(root.Clone()).New("tpl").Parse(text)
		if err != nil {
			return "", err
		}
		var out bytes.Buffer
		err = one.Execute(&out, scope)
		return out.String(), err
	}
	return known
}

// Through JSON, as Helm's does, so that 2.0 becomes 2.
func toYaml(value any) (string, error) {
	asJSON, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(asJSON, &node); err != nil {
		return "", err
	}
	blockStyle(&node)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&node); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

func blockStyle(node *yaml.Node) {
	if node.Kind != yaml.ScalarNode {
		node.Style = 0
	}
	for _, below := range node.Content {
		blockStyle(below)
	}
}
