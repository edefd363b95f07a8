/**
 * The single definition of the values of the Helm chart. values.yaml, values.schema.json and
 * docs/reference/helm-values.md are generated from it. Defaults that the base has come from the base.
 */
import Type, { type TProperties, type TSchema } from 'typebox';

import { PARTS, type Part } from '../../src/config/parts.ts';
import { SETTINGS } from '../../src/config/settings.ts';

interface Sized {
  readonly replicas: number;
  readonly topologySpreadConstraints: unknown;
  readonly resources: unknown;
}

export interface BaseDefaults extends Sized {
  readonly image: string;
  readonly controllers: Sized;
  readonly strategy: unknown;
  readonly priorityClassName: string;
  readonly minAvailable: number;
  readonly metricsFrom: unknown;
  readonly rehearsal: {
    readonly schedule: string;
    readonly claimName: string;
    readonly resources: unknown;
  };
}

const group = (description: string, properties: TProperties) =>
  Type.Object(properties, { description, additionalProperties: false });
const boolean = (description: string, value: boolean) => Type.Boolean({ description, default: value });
const text = (description: string, value: string, rules: { readonly pattern?: string } = {}) =>
  Type.String({ description, default: value, ...rules });
const oneOf = (description: string, values: readonly string[], value: string) =>
  Type.Unsafe<string>({ type: 'string', enum: values, description, default: value });
const textMap = (description: string) =>
  Type.Unsafe<object>({ type: 'object', additionalProperties: { type: 'string' }, description, default: {} });
const object = (description: string, value: unknown) =>
  Type.Unsafe<object>({ type: 'object', description, default: value });
const objects = (description: string, value: unknown = []) =>
  Type.Unsafe<readonly object[]>({ type: 'array', items: { type: 'object' }, description, default: value });

const DNS_LABEL = '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$';
/** A number of pods, or a percentage. */
const amount = (description: string, value: number) =>
  Type.Unsafe<number | string>({
    anyOf: [
      { type: 'integer', minimum: 0 },
      { type: 'string', pattern: '^(100|[1-9]?[0-9])%$' },
    ],
    description,
    default: value,
  });

export function chartValues(base: BaseDefaults): TSchema & { readonly properties: TProperties } {
  return group('Values of the Helm chart of Gatehouse.', {
    image: imageValues(base),
    imagePullSecrets: objects('Secrets that pull the image: `[{name: my-registry}]`.'),
    processes: oneOf(
      '`separate`: the Deployments `gatehouse-webhook` and `gatehouse-controllers`, each with its own account. `single`: one ' +
        'Deployment, `gatehouse`, runs both, for small clusters. `both`: all three, for the time of an upgrade from `single`.',
      ['separate', 'single', 'both'],
      'separate',
    ),
    ...deploymentValues(base),
    controllers: controllersValues(base.controllers),
    ...processValues(),
    ...permissionValues(base),
    ...neighbourValues(base),
    crds: group(
      'The CustomResourceDefinitions. They are templates, so that upgrades of the chart upgrade them.',
      {
        enabled: boolean('Install and upgrade them. Turn off if another tool does.', true),
        keep: boolean(
          'Keep them when the release is uninstalled. Otherwise every policy, window and report is deleted.',
          true,
        ),
      },
    ),
    monitoring: monitoringValues(),
  });
}

const imageValues = (base: BaseDefaults) =>
  group('The image.', {
    repository: text('Repository of the image, without a tag.', base.image, {
      pattern: '^[^\\s:@]+(:[0-9]+/[^\\s:@]+)?$',
    }),
    tag: text('Its tag; empty: the version of the chart.', '', { pattern: '^[\\w.-]{0,128}$' }),
    digest: text('Its digest, `sha256:…`, which takes precedence over the tag.', '', {
      pattern: '^(sha256:[0-9a-f]{64})?$',
    }),
    pullPolicy: oneOf(
      'When it is pulled; empty: the Kubernetes default for the tag.',
      ['', 'Always', 'IfNotPresent', 'Never'],
      '',
    ),
  });

const replicas = (description: string, value: number) =>
  Type.Integer({
    description:
      `${description} While this number does not change, an upgrade keeps what \`kubectl scale\` or an autoscaler has set. ` +
      '`null` from the installation on: the chart leaves the number out.',
    default: value,
    minimum: 0,
  });

const deploymentValues = (base: BaseDefaults): TProperties => ({
  replicas: replicas(
    'Number of pods that answer reviews. While none runs, requests that policies govern are refused.',
    base.replicas,
  ),
  strategy: object('How these pods are replaced after a change.', base.strategy),
  resources: object('Resource requests and limits of such a pod.', base.resources),
  affinity: object('Node and pod affinity of these pods.', {}),
  topologySpreadConstraints: objects(
    'How these pods are spread over the cluster; not with `processes: single`.',
    base.topologySpreadConstraints,
  ),
  priorityClassName: text('Priority class of all pods; empty: none.', base.priorityClassName),
  nodeSelector: textMap('Labels that a node must have.'),
  tolerations: objects('Taints of nodes that the pods tolerate.'),
  podAnnotations: textMap('Annotations of all pods.'),
  podLabels: textMap('Labels of all pods, in addition to those that the chart sets.'),
});

const controllersValues = (base: Sized) =>
  group('The pods of the controllers, if they are separate.', {
    replicas: replicas('Number of pods. One of them leads; the others wait to take over.', base.replicas),
    resources: object('Resource requests and limits of a pod.', base.resources),
    affinity: object('Node and pod affinity of the pods.', {}),
    topologySpreadConstraints: objects(
      'How the pods are spread over the cluster.',
      base.topologySpreadConstraints,
    ),
    extraArgs: flags(
      'Additional flags of the controllers, such as `--ca-lifetime=365d`. They also apply with `processes: single`.',
    ),
  });

const flags = (description: string) => Type.Array(Type.String(), { description, default: [] });

const processValues = (): TProperties => ({
  logLevel: oneOf(
    'Minimum level of log messages.',
    ['debug', 'info', 'warn', 'error'],
    SETTINGS['log-level'].default,
  ),
  statusPage: boolean(
    'A status page at `/status` on the metrics port of the controllers, for users with the ClusterRole `gatehouse-status-viewer`.',
    false,
  ),
  policyReports: boolean(
    'The violations that the audit finds, as Reports of `openreports.io`, or of `wgpolicyk8s.io` where these are not served.',
    false,
  ),
  compilePolicies: boolean(
    'What CEL can express, as policies that the API server enforces itself: checks as ValidatingAdmissionPolicies, changes as MutatingAdmissionPolicies (Kubernetes 1.36).',
    false,
  ),
  extraArgs: flags('Additional flags of the process that answers reviews, such as `--drain-delay=20s`.'),
  extraEnv: objects(
    'Additional environment variables of all processes, such as `OTEL_*`, or `GATEHOUSE_UNIQUE_SETTLE`: each process reads only its own settings.',
  ),
  extraVolumes: objects('Additional volumes of the pods, such as one with handlers.'),
  extraVolumeMounts: objects('Mounts of these volumes in the container.'),
});

const PART_OF: Readonly<Record<Part, string>> = {
  certificates: 'Certificates for annotated Services.',
  injection: 'CA bundles in objects that request them.',
  conversions: 'ConversionPolicies, and handlers that convert objects.',
  restores: 'RestoreWindows and RestoreDetectors.',
};

const permissionValues = (base: BaseDefaults): TProperties => ({
  parts: group(
    'The parts that run. Other parts lack permissions, and their CRDs remain installed.',
    Object.fromEntries(
      PARTS.map((part) => [part, group(PART_OF[part], { enabled: boolean('Whether it runs.', true) })]),
    ),
  ),
  compat: group('Other systems whose annotations are supported.', {
    openshift: boolean(
      "Those of OpenShift's service-ca. Also omits the user ID, because OpenShift refuses a fixed one.",
      false,
    ),
    certManager: boolean("Those of cert-manager's cainjector.", false),
  }),
  deleteSecrets: boolean(
    'Let Gatehouse delete Secrets: for `--serving-cert-on-removal=delete` (see controllers.extraArgs), and for Services that request the ' +
      'replacement of a Secret that cannot be written.',
    false,
  ),
  restarts: boolean(
    'Install the ClusterRole `gatehouse-restarts` for `gatehouse.dev/restart-on-renewal`. Bind it in each namespace where ' +
      'Gatehouse may restart workloads.',
    false,
  ),
  distributeBundles: boolean(
    'Let Gatehouse create, update and delete ConfigMaps in all namespaces: for CA bundles with `gatehouse.dev/distribute-to`.',
    false,
  ),
  restore: group('Restores by backup tools.', {
    velero: group('The detector for restores of Velero.', {
      enabled: boolean(
        'Install it. Its kind must exist first: in a new cluster, the second `helm upgrade` adds it.',
        false,
      ),
      namespace: text(
        'Namespace of Velero. Users who may write Restores there can have reference checks deferred.',
        'velero',
        { pattern: DNS_LABEL },
      ),
    }),
    rehearsal: group('The rehearsal of a restore of the newest backup of Velero, by a CronJob.', {
      enabled: boolean('Install it. Its volume must exist.', false),
      schedule: text('When it runs: after the nightly backup has ended.', base.rehearsal.schedule),
      claimName: text(
        'PersistentVolumeClaim with the backups in the namespace of the release: the bucket of the BackupStorageLocation.',
        base.rehearsal.claimName,
        { pattern: DNS_LABEL },
      ),
      resources: object('Resource requests and limits of its pod.', base.rehearsal.resources),
    }),
  }),
});

const neighbourValues = (base: BaseDefaults): TProperties => ({
  podDisruptionBudget: group(
    'Limits how many pods are evicted at the same time. Turn off for a single replica.',
    {
      enabled: boolean('Create one.', true),
      minAvailable: amount(
        'How many pods that answer reviews must remain available during evictions, as a number or a percentage. One pod of the controllers remains available.',
        base.minAvailable,
      ),
    },
  ),
  backstop: group('The API server itself limits what the account of the controllers can write.', {
    enabled: boolean('Create the ValidatingAdmissionPolicies.', true),
  }),
  networkPolicy: group(
    'Which clients can reach Gatehouse. All can reach the webhooks, but not the metrics.',
    {
      enabled: boolean('Create one.', true),
      // An empty list makes the NetworkPolicy allow all sources.
      metricsFrom: Type.Unsafe<readonly object[]>({
        type: 'array',
        items: { type: 'object' },
        minItems: 1,
        description: 'Clients that can read the metrics: peers of a NetworkPolicy.',
        default: base.metricsFrom,
      }),
    },
  ),
});

const monitoringValues = () =>
  group('For clusters with the Prometheus operator.', {
    labels: textMap(
      'Labels of the next two objects by which your Prometheus selects them, such as `release: prometheus`.',
    ),
    podMonitor: boolean('A PodMonitor: every replica is scraped.', false),
    prometheusRule: boolean('A PrometheusRule: alerts.', false),
    dashboard: boolean(
      "The dashboard, in a ConfigMap with the label that the sidecar of Grafana's chart selects.",
      false,
    ),
  });
