{{- /* What Helm's tools look for. Selectors have none of it: they cannot change, and versions do. */ -}}
{{- define "gatehouse.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "gatehouse.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "gatehouse.compat" -}}
{{- $names := list -}}
{{- if .Values.compat.openshift }}{{ $names = append $names "openshift" }}{{ end -}}
{{- if .Values.compat.certManager }}{{ $names = append $names "cert-manager" }}{{ end -}}
{{ join "," $names }}
{{- end -}}

{{- /* The accounts of a binding: the root context, then the accounts of separate processes. */ -}}
{{- define "gatehouse.subjects" -}}
{{- $root := first . -}}
{{- $names := ternary (list) (rest .) (eq $root.Values.processes "single") -}}
{{- if ne $root.Values.processes "separate" }}{{ $names = append $names "gatehouse" }}{{ end -}}
{{- range $i, $name := $names }}
{{- if $i }}{{ "\n" }}{{ end -}}
- kind: ServiceAccount
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
{{- end -}}
{{- end -}}
