/** The places in the manifests of deploy/ where the chart inserts its values. */
import { stringify } from 'yaml';

import { RESTORE_WINDOW_RULES } from '../../src/api/restore-window-rules.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { inline, lines, optional, type Edit, type Path } from './holes.ts';

/** The namespace in the manifests of the base. */
const NAMESPACE = 'gatehouse-system';

/** All edits of one object. */
export function editsOf(object: KubeObject): readonly Edit[] {
  return [labels(), ...namespaces(object, []), ...(BY_KIND[object.kind ?? '']?.(object) ?? [])];
}

const labels = (): Edit =>
  lines(['metadata', 'labels', 'of-the-release'], 'add', (indent) => [
    `{{- include "gatehouse.labels" . | nindent ${indent} }}`,
  ]);

/** Replaces the namespace in the metadata and in the subjects of bindings. */
function namespaces(value: unknown, path: Path): readonly Edit[] {
  if (value === NAMESPACE) return [inline(path, '{{ .Release.Namespace }}')];
  if (typeof value !== 'object' || value === null) return [];
  const isList = Array.isArray(value);
  return Object.entries(value).flatMap(([key, below]) =>
    namespaces(below, [...path, isList ? Number(key) : key]),
  );
}

const BY_KIND: Readonly<Partial<Record<string, (object: KubeObject) => readonly Edit[]>>> = {
  CustomResourceDefinition: definition,
  Deployment: () => [...deployment(), ...container()],
  PodDisruptionBudget: () => [
    inline(
      ['apiVersion'],
      'policy/{{ if semverCompare ">=1.21-0" .Capabilities.KubeVersion.Version }}v1{{ else }}v1beta1{{ end }}',
    ),
    inline(['spec', 'minAvailable'], '{{ toYaml .Values.podDisruptionBudget.minAvailable }}'),
  ],
  NetworkPolicy: () => [
    inline(['spec', 'ingress', 1, 'from'], '{{ toJson .Values.networkPolicy.metricsFrom }}'),
  ],
  RestoreDetector: () => [
    lines(['spec', 'namespaces'], 'replace', () => ['namespaces: [{{ .Values.restore.velero.namespace }}]']),
    inline(
      ['spec', 'principals', 0, 'group'],
      'system:serviceaccounts:{{ .Values.restore.velero.namespace }}',
    ),
  ],
  ValidatingAdmissionPolicy: compatibility,
  PodMonitor: monitoringLabels,
  PrometheusRule: monitoringLabels,
};

function definition({ metadata }: KubeObject): readonly Edit[] {
  const keep = lines(['metadata', 'annotations'], 'add', () => [
    '{{- if .Values.crds.keep }}',
    'annotations:',
    '  helm.sh/resource-policy: keep',
    '{{- end }}',
  ]);
  if (metadata?.name !== 'restorewindows.gatehouse.dev') return [keep];
  const rules = stringify({ 'x-kubernetes-validations': RESTORE_WINDOW_RULES }, { lineWidth: 0 });
  const spec = ['spec', 'versions', 0, 'schema', 'openAPIV3Schema', 'properties', 'spec'];
  return [
    keep,
    lines([...spec, 'x-kubernetes-validations'], 'add', () => [
      '{{- if .Values.crds.rules }}',
      ...rules.trimEnd().split('\n'),
      '{{- end }}',
    ]),
  ];
}

/** The components openshift-compat and cert-manager-compat edit these variables. */
function compatibility(policy: KubeObject & { readonly spec?: PolicySpec }): readonly Edit[] {
  const flags = new Map([
    ['openshift', '.Values.compat.openshift'],
    ['certManager', '.Values.compat.certManager'],
  ]);
  return (policy.spec?.variables ?? []).flatMap(({ name }, index) => {
    const value = flags.get(name);
    return value === undefined
      ? []
      : [inline(['spec', 'variables', index, 'expression'], `{{ ${value} | quote }}`)];
  });
}

interface PolicySpec {
  readonly variables?: readonly { readonly name: string }[];
}

function monitoringLabels(): readonly Edit[] {
  return [
    lines(['metadata', 'labels', 'to-be-selected'], 'add', (indent) => [
      '{{- with .Values.monitoring.labels }}',
      `{{- toYaml . | nindent ${indent} }}`,
      '{{- end }}',
    ]),
  ];
}

const POD: Path = ['spec', 'template', 'spec'];

function deployment(): readonly Edit[] {
  return [
    inline(['spec', 'replicas'], '{{ int .Values.replicas }}'),
    optional(['spec', 'strategy'], 'replace', 'strategy'),
    optional(['spec', 'template', 'metadata', 'annotations'], 'add', 'podAnnotations'),
    lines(['spec', 'template', 'metadata', 'labels', 'of-the-user'], 'add', (indent) => [
      '{{- with .Values.podLabels }}',
      `{{- toYaml . | nindent ${indent} }}`,
      '{{- end }}',
    ]),
    optional([...POD, 'imagePullSecrets'], 'add', 'imagePullSecrets'),
    lines([...POD, 'priorityClassName'], 'replace', () => [
      '{{- with .Values.priorityClassName }}',
      'priorityClassName: {{ . | quote }}',
      '{{- end }}',
    ]),
    optional([...POD, 'topologySpreadConstraints'], 'replace', 'topologySpreadConstraints'),
    optional([...POD, 'nodeSelector'], 'add', 'nodeSelector'),
    optional([...POD, 'tolerations'], 'add', 'tolerations'),
    optional([...POD, 'affinity'], 'add', 'affinity'),
    optional([...POD, 'volumes'], 'add', 'extraVolumes'),
  ];
}

const CONTAINER: Path = [...POD, 'containers', 0];
/** The number of environment variables in the base. Those of the user follow them. */
const OWN_VARIABLES = 2;

function container(): readonly Edit[] {
  return [
    inline([...CONTAINER, 'image'], '{{ include "gatehouse.image" . | quote }}'),
    lines([...CONTAINER, 'imagePullPolicy'], 'add', () => [
      '{{- with .Values.image.pullPolicy }}',
      'imagePullPolicy: {{ . }}',
      '{{- end }}',
    ]),
    lines([...CONTAINER, 'args', 1], 'add', moreArguments),
    lines([...CONTAINER, 'env', OWN_VARIABLES], 'add', (indent) => [
      '{{- with .Values.extraEnv }}',
      `{{- toYaml . | nindent ${indent} }}`,
      '{{- end }}',
    ]),
    optional([...CONTAINER, 'resources'], 'replace', 'resources'),
    optional([...CONTAINER, 'volumeMounts'], 'add', 'extraVolumeMounts'),
    unlessOpenshift('runAsUser'),
    unlessOpenshift('runAsGroup'),
  ];
}

const moreArguments = (): readonly string[] => [
  '{{- if ne .Values.logLevel "info" }}',
  '- --log-level={{ .Values.logLevel }}',
  '{{- end }}',
  '{{- if or .Values.compat.openshift .Values.compat.certManager }}',
  '- --compat={{ include "gatehouse.compat" . }}',
  '{{- end }}',
  '{{- if .Values.statusPage }}',
  '- --status-page',
  '{{- end }}',
  '{{- range .Values.extraArgs }}',
  '- {{ . | quote }}',
  '{{- end }}',
];

/** OpenShift assigns a range of user IDs to each namespace, and rejects pods that request another ID. */
const unlessOpenshift = (key: string): Edit =>
  lines([...CONTAINER, 'securityContext', key], 'replace', () => [
    '{{- if not .Values.compat.openshift }}',
    `${key}: 65532`,
    '{{- end }}',
  ]);
