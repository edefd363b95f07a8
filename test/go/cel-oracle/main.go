// What Kubernetes answers to CEL expressions: one question a line on stdin, one answer a line on stdout, both JSON.
//
// An expression has variables with CEL types and bindings with tagged values, as in test/data/cel-matrix-1.37.jsonl. A schema has
// rules, and the object and oldObject that they check.
//
// Both modules build it, each with its version of Kubernetes:
//
//	go build -C test/go/kubernetes-newest ../cel-oracle/main.go ../cel-oracle/newest.go
//	go build -C test/go/kubernetes-oldest ../cel-oracle/main.go ../cel-oracle/oldest.go
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	rules "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

type question struct {
	Expression string            `json:"expression"`
	Variables  map[string]string `json:"variables"`
	Bindings   map[string]tagged `json:"bindings"`
	CheckOnly  bool              `json:"checkOnly"`
	// The type that the expression must have.
	Result string `json:"result"`
	Schema    *v1.JSONSchemaProps `json:"schema"`
	Object    json.RawMessage     `json:"object"`
	OldObject json.RawMessage     `json:"oldObject"`
}

type answer struct {
	CompileError string  `json:"compileError,omitempty"`
	Type         string  `json:"type,omitempty"`
	Result       tagged  `json:"result,omitempty"`
	Error        string  `json:"error,omitempty"`
	Cost         *uint64 `json:"cost,omitempty"`
	// The problems that the rules found.
	Causes []cause `json:"causes,omitempty"`
}

type cause struct {
	Field  string `json:"field"`
	Type   string `json:"type"`
	Detail string `json:"detail"`
}

type tagged map[string]any

func main() {
	environments := base()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		if err := out.Encode(answerTo(lines.Bytes(), environments)); err != nil {
			panic(err)
		}
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
}

// The API server also survives a panic, and answers with an internal error.
func answerTo(line []byte, environments *environment.EnvSet) (result answer) {
	defer func() {
		if problem := recover(); problem != nil {
			result.Error = fmt.Sprintf("internal error: %v", problem)
		}
	}()
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		panic(err)
	}
	if asked.Schema != nil {
		return checkRules(asked, environments)
	}
	return evaluate(asked, environments)
}

func evaluate(asked question, environments *environment.EnvSet) (result answer) {
	base := environments.NewExpressionsEnv()
	options := patches()
	for name, text := range asked.Variables {
		options = append(options, cel.Variable(name, typeOf(text)))
	}
	env, err := base.Extend(options...)
	if err != nil {
		panic(err)
	}
	ast, issues := env.Compile(asked.Expression)
	if issues != nil && issues.Err() != nil {
		return answer{CompileError: issues.String()}
	}
	result.Type = ast.OutputType().String()
	if asked.Result != "" && result.Type != asked.Result {
		return answer{CompileError: fmt.Sprintf("must evaluate to %s but got %s", asked.Result, result.Type)}
	}
	if asked.CheckOnly {
		return result
	}
	program, err := env.Program(ast, cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return answer{CompileError: "program instantiation failed: " + err.Error()}
	}
	values := map[string]any{}
	for name, value := range asked.Bindings {
		values[name] = valueOf(value)
	}
	value, details, err := program.ContextEval(context.Background(), values)
	if details != nil {
		result.Cost = details.ActualCost()
	}
	if err != nil {
		result.Error = err.Error()
	} else {
		result.Result = taggedOf(value)
	}
	return result
}

func checkRules(asked question, environments *environment.EnvSet) (result answer) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(asked.Schema, internal, nil); err != nil {
		panic(err)
	}
	structural, err := schema.NewStructural(internal)
	if err != nil {
		panic(err)
	}
	compiled, err := rules.Compile(structural, model.SchemaDeclType(structural, true), celconfig.PerCallLimit, environments, rules.NewExpressionsEnvLoader())
	if err != nil {
		panic(err)
	}
	for _, rule := range compiled {
		if rule.Error != nil {
			return answer{CompileError: rule.Error.Detail}
		}
	}
	validator := rules.NewValidator(structural, true, celconfig.PerCallLimit)
	if validator == nil {
		return result
	}
	problems, left := validator.Validate(context.Background(), nil, structural, objectOf(asked.Object), objectOf(asked.OldObject), celconfig.RuntimeCELCostBudget)
	cost := uint64(celconfig.RuntimeCELCostBudget - left)
	result.Cost = &cost
	for _, problem := range problems {
		result.Causes = append(result.Causes, cause{problem.Field, string(problem.Type), problem.Detail})
	}
	return result
}

func objectOf(text json.RawMessage) any {
	if len(text) == 0 {
		return nil
	}
	var value any
	if err := kubejson.Unmarshal(text, &value); err != nil {
		panic(err)
	}
	return value
}

var named = map[string]*cel.Type{
	"dyn": cel.DynType, "bool": cel.BoolType, "int": cel.IntType, "uint": cel.UintType, "double": cel.DoubleType,
	"string": cel.StringType, "bytes": cel.BytesType, "null_type": cel.NullType, "timestamp": cel.TimestampType,
	"duration": cel.DurationType,
}

// A type such as map(string, list(int)).
func typeOf(text string) *cel.Type {
	if found, ok := named[text]; ok {
		return found
	}
	kind, rest, _ := strings.Cut(text, "(")
	parts := split(strings.TrimSuffix(rest, ")"))
	switch kind {
	case "list":
		return cel.ListType(typeOf(parts[0]))
	case "map":
		return cel.MapType(typeOf(parts[0]), typeOf(parts[1]))
	case "optional_type":
		return cel.OptionalType(typeOf(parts[0]))
	case "type":
		return types.NewTypeTypeWithParam(typeOf(parts[0]))
	}
	panic("unknown type " + text)
}

func split(text string) []string {
	depth := 0
	for at, character := range text {
		switch character {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				return append([]string{text[:at]}, split(strings.TrimSpace(text[at+1:]))...)
			}
		}
	}
	return []string{text}
}

func valueOf(value tagged) any {
	for kind, content := range value {
		switch kind {
		case "null":
			return types.NullValue
		case "bool":
			return types.Bool(content.(bool))
		case "string":
			return types.String(content.(string))
		case "int":
			return types.Int(must(strconv.ParseInt(content.(string), 10, 64)))
		case "uint":
			return types.Uint(must(strconv.ParseUint(content.(string), 10, 64)))
		case "double":
			return types.Double(must(strconv.ParseFloat(content.(string), 64)))
		case "bytes":
			return types.Bytes(must(base64.StdEncoding.DecodeString(content.(string))))
		case "timestamp":
			return types.Timestamp{Time: must(time.Parse(time.RFC3339Nano, content.(string)))}
		case "duration":
			return types.Duration{Duration: time.Duration(must(strconv.ParseInt(content.(string), 10, 64)))}
		case "type":
			return typeOf(content.(string))
		case "optional":
			if content == nil {
				return types.OptionalNone
			}
			return types.OptionalOf(valueOf(content.(map[string]any)).(ref.Val))
		case "list":
			items := []ref.Val{}
			for _, item := range content.([]any) {
				items = append(items, valueOf(item.(map[string]any)).(ref.Val))
			}
			return types.NewRefValList(types.DefaultTypeAdapter, items)
		case "map":
			entries := map[ref.Val]ref.Val{}
			for _, pair := range content.([]any) {
				entry := pair.([]any)
				key := valueOf(entry[0].(map[string]any)).(ref.Val)
				entries[key] = valueOf(entry[1].(map[string]any)).(ref.Val)
			}
			return types.NewRefValMap(types.DefaultTypeAdapter, entries)
		}
	}
	panic(fmt.Sprintf("unknown value %v", value))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func taggedOf(value ref.Val) tagged {
	switch content := value.(type) {
	case types.Null:
		return tagged{"null": nil}
	case types.Bool:
		return tagged{"bool": bool(content)}
	case types.String:
		return tagged{"string": string(content)}
	case types.Int:
		return tagged{"int": strconv.FormatInt(int64(content), 10)}
	case types.Uint:
		return tagged{"uint": strconv.FormatUint(uint64(content), 10)}
	case types.Double:
		if math.IsInf(float64(content), 0) || math.IsNaN(float64(content)) {
			return tagged{"double": strings.TrimPrefix(fmt.Sprint(float64(content)), "+")}
		}
		return tagged{"double": strconv.FormatFloat(float64(content), 'g', -1, 64)}
	case types.Bytes:
		return tagged{"bytes": base64.StdEncoding.EncodeToString(content)}
	case types.Timestamp:
		return tagged{"timestamp": content.Time.UTC().Format(time.RFC3339Nano)}
	case types.Duration:
		return tagged{"duration": strconv.FormatInt(int64(content.Duration), 10)}
	case *types.Optional:
		if !content.HasValue() {
			return tagged{"optional": nil}
		}
		return tagged{"optional": taggedOf(content.GetValue())}
	case *types.Type:
		return tagged{"type": content.TypeName()}
	case traits.Mapper:
		pairs := []any{}
		for keys := content.Iterator(); keys.HasNext() == types.True; {
			key := keys.Next()
			pairs = append(pairs, []any{taggedOf(key), taggedOf(content.Get(key))})
		}
		return tagged{"map": pairs}
	case traits.Lister:
		items := []any{}
		for each := content.Iterator(); each.HasNext() == types.True; {
			items = append(items, taggedOf(each.Next()))
		}
		return tagged{"list": items}
	}
	return tagged{"opaque": value.Type().TypeName()}
}
