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

{{- /*
The number of replicas that an upgrade keeps: that of the cluster, if this chart has set it, and the values say the same as then, or
nothing. Otherwise empty, also where Helm cannot see the cluster. Arguments: the root context, the Deployment, the number in the values.
*/ -}}
{{- define "gatehouse.kept" -}}
{{- $live := lookup "apps/v1" "Deployment" (first .).Release.Namespace (index . 1) -}}
{{- $before := dig "metadata" "annotations" "gatehouse.dev/chart-replicas" "" $live -}}
{{- if and $before (or (kindIs "invalid" (index . 2)) (eq $before (toJson (index . 2)))) -}}
{{ int $live.spec.replicas }}
{{- end -}}
{{- end -}}

{{- /* The number of replicas of a Deployment; empty: the chart leaves it out. */ -}}
{{- define "gatehouse.replicas" -}}
{{- $kept := include "gatehouse.kept" . -}}
{{- if $kept -}}
{{ $kept }}
{{- else if not (kindIs "invalid" (index . 2)) -}}
{{ int (index . 2) }}
{{- end -}}
{{- end -}}
