/** Which manifests of deploy/ are in the chart, and by which value each is turned on. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { readKustomization } from '../kustomization.ts';

/** One object, and the condition of a Helm `if` under which it is there; undefined: always. */
export interface Part {
  readonly object: KubeObject;
  readonly condition: string | undefined;
}

/** Every folder of deploy/components, and what turns it on; undefined: it is no object, but a hole in others (edits.ts). */
export const COMPONENTS: Readonly<Record<string, string | undefined>> = {
  'crd-rules': undefined, // crds.rules
  'kubernetes-1.20': undefined, // by the version of the cluster
  'delete-secrets': '.Values.deleteSecrets',
  'disruption-budget': '.Values.podDisruptionBudget.enabled',
  'network-policy': '.Values.networkPolicy.enabled',
  'openshift-compat': '.Values.compat.openshift',
  'status-page': '.Values.statusPage',
};

/** Everything that the chart may install, from a `deploy/` folder. */
export function readParts(deploy: string): readonly Part[] {
  const base = readKustomization(join(deploy, 'base'))
    // Helm makes the namespace, or finds it; a release that held it could not be installed into it.
    .filter(({ kind }) => kind !== 'Namespace')
    .map((object) => ({
      object,
      condition: object.kind === 'CustomResourceDefinition' ? '.Values.crds.enabled' : undefined,
    }));
  const components = Object.entries(COMPONENTS).flatMap(([name, condition]) =>
    condition === undefined
      ? []
      : readResources(join(deploy, 'components', name)).map((object) => ({ object, condition })),
  );
  return [...base, ...components, ...readVelero(deploy), ...readMonitoring(deploy)];
}

function readVelero(deploy: string): readonly Part[] {
  const folder = join(deploy, 'detectors', 'velero');
  const enabled = '.Values.restore.velero.enabled';
  // Helm asks the API server about all kinds before it creates the first object, so a new cluster would refuse the detector.
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
      labels: { 'app.kubernetes.io/name': 'gatehouse', grafana_dashboard: '1' },
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

/** What a component adds. What it patches is in edits.ts, and test/e2e/chart.test.ts compares the two. */
function readResources(folder: string): readonly KubeObject[] {
  const { resources = [] } = parse(readFileSync(join(folder, 'kustomization.yaml'), 'utf8')) as {
    readonly resources?: readonly string[];
  }; // our own file
  return resources.flatMap((name) => readObjects(join(folder, name)));
}

const readObjects = (file: string): readonly KubeObject[] =>
  parseAllDocuments(readFileSync(file, 'utf8')).map((document) => document.toJS() as KubeObject); // our own files
