/** The manifests of deploy/ that the chart contains, and the value that enables each. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { readKustomization } from '../kustomization.ts';

/** One object and its Helm `if` condition. Without a condition, the chart always installs the object. */
export interface Part {
  readonly object: KubeObject;
  readonly condition: string | undefined;
}

/** Whether the chart installs the Deployment that runs both processes, and the two Deployments. */
const SINGLE = 'ne .Values.processes "separate"';
const SEPARATE = 'ne .Values.processes "single"';

/**
 * The condition of every folder of deploy/components. Undefined: the component adds no object but edits others
 * (edits.ts).
 */
export const COMPONENTS: Readonly<Record<string, string | undefined>> = {
  backstop: '.Values.backstop.enabled',
  'client-ca': undefined, // extraArgs, extraVolumes, extraVolumeMounts
  single: SINGLE,
  'single-account': undefined, // processes
  'delete-secrets': '.Values.deleteSecrets',
  'distribute-bundles': '.Values.distributeBundles',
  'disruption-budget': '.Values.podDisruptionBudget.enabled',
  'network-policy': '.Values.networkPolicy.enabled',
  'cert-manager-compat': '.Values.compat.certManager',
  'openshift-compat': '.Values.compat.openshift',
  restarts: '.Values.restarts',
  namespaces: undefined, // not in the chart
  'without-certificates': undefined, // parts.certificates.enabled
  'without-conversions': undefined,
  'without-injection': undefined,
  'without-restores': undefined,
  'status-page': '.Values.statusPage',
  'policy-reports': '.Values.policyReports',
  'restore-rehearsal': '.Values.restore.rehearsal.enabled',
  'compile-policies': '.Values.compilePolicies',
};

export function readParts(deploy: string): readonly Part[] {
  const base = readKustomization(join(deploy, 'base'))
    // Helm creates or reuses the namespace. A release that contains its own namespace cannot be installed into it.
    .filter(({ kind }) => kind !== 'Namespace')
    .map((object) => ({ object, condition: conditionOf(object) }));
  const components = Object.entries(COMPONENTS).flatMap(([name, condition]) =>
    condition === undefined
      ? []
      : readResources(join(deploy, 'components', name)).map((object) => ({
          object,
          condition: isOfTwo(object) ? `and ${condition} (${SEPARATE})` : condition,
        })),
  );
  return [...base, ...components, ...readVelero(deploy), ...readMonitoring(deploy)];
}

function conditionOf(object: KubeObject): string | undefined {
  if (object.kind === 'CustomResourceDefinition') return '.Values.crds.enabled';
  const part = object.metadata?.labels?.['gatehouse.dev/part'];
  if (part !== undefined) return `.Values.parts.${part}.enabled`;
  return isOfTwo(object) ? SEPARATE : undefined;
}

/** Whether the overlay `single` leaves out the object, because it is about one of the two processes. */
const isOfTwo = ({ kind = '', metadata }: KubeObject): boolean =>
  ['Deployment', 'ServiceAccount', 'NetworkPolicy', 'PodDisruptionBudget'].includes(kind) &&
  /^gatehouse-(webhook|controllers)$/.test(metadata?.name ?? '');

function readVelero(deploy: string): readonly Part[] {
  const folder = join(deploy, 'detectors', 'velero');
  const enabled = '.Values.restore.velero.enabled';
  // Helm validates all kinds before it creates the first object. On a new cluster, the unknown kind would make the
  // installation fail.
  const known = `and ${enabled} (.Capabilities.APIVersions.Has "gatehouse.dev/v1alpha1/RestoreDetector")`;
  return [
    ...readObjects(join(folder, 'role.yaml')).map((object) => ({ object, condition: enabled })),
    ...readObjects(join(folder, 'detector.yaml')).map((object) => ({ object, condition: known })),
  ];
}

function readMonitoring(deploy: string): readonly Part[] {
  const folder = join(deploy, 'monitoring');
  const placed = (object: KubeObject): KubeObject => ({
    ...object,
    metadata: { ...object.metadata, namespace: 'gatehouse-system' },
  });
  const dashboard = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name: 'gatehouse-dashboard',
      labels: {
        'app.kubernetes.io/name': 'gatehouse',
        'app.kubernetes.io/part-of': 'gatehouse',
        grafana_dashboard: '1',
      },
    },
    data: { 'gatehouse.json': readFileSync(join(folder, 'dashboard.json'), 'utf8') },
  };
  return [
    ...readObjects(join(folder, 'pod-monitor.yaml')).map((object) => ({
      object: placed(object),
      condition: '.Values.monitoring.podMonitor',
    })),
    ...readObjects(join(folder, 'prometheus-rule.yaml')).map((object) => ({
      object: placed(object),
      condition: '.Values.monitoring.prometheusRule',
    })),
    { object: placed(dashboard), condition: '.Values.monitoring.dashboard' },
  ];
}

/** The objects that a component adds. Its patches are in edits.ts, and test/e2e/chart.test.ts compares the two. */
function readResources(folder: string): readonly KubeObject[] {
  const { resources = [] } = parse(readFileSync(join(folder, 'kustomization.yaml'), 'utf8')) as {
    readonly resources?: readonly string[];
  }; // our own file
  return resources.flatMap((name) => readObjects(join(folder, name)));
}

const readObjects = (file: string): readonly KubeObject[] =>
  parseAllDocuments(readFileSync(file, 'utf8')).map((document) => document.toJS() as KubeObject); // our own files
