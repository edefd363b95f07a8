import type { Resource } from '../../../src/kube/object.ts';
import { deployments } from '../../../src/kube/well-known.ts';
import { merges, meta, TENANT, type Attempt, type Json, type Strings } from './attack.ts';

const deployment = (name: string, annotations: Strings): readonly [Resource, Json] => [
  deployments,
  {
    ...meta(name, annotations, TENANT),
    spec: {
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name } },
        spec: { containers: [{ name: 'app', image: 'example.com/app:1' }] },
      },
    },
  },
];
const RESTARTS = { 'gatehouse.dev/restart-on-renewal': 'true' };
const annotations = { 'kubectl.kubernetes.io/restartedAt': '2026-01-01T00:00:00Z' };
const restart = { spec: { template: { metadata: { annotations } } } };
const requested = { metadata: { annotations: RESTARTS }, ...restart };
const workloadAttack = (name: string, id: string, annotations: Strings, patch: object): Attempt => ({
  name,
  before: deployment(id, annotations),
  write: merges(deployments, id, patch, TENANT),
});

export const ON_WORKLOADS: readonly Attempt[] = [
  workloadAttack('a restart that no workload requests', 'restarted', {}, restart),
  workloadAttack('a restart and the request in one write', 'asked', {}, requested),
  workloadAttack('another program', 'program', RESTARTS, {
    spec: { template: { spec: { containers: [{ name: 'app', image: 'example.com/thief' }] } } },
  }),
  workloadAttack('another account', 'account', RESTARTS, {
    spec: { template: { spec: { serviceAccountName: 'admin' } } },
  }),
  workloadAttack('another annotation of pods', 'annotated', RESTARTS, {
    spec: { template: { metadata: { annotations: { 'sidecar.example.com/inject': 'thief' } } } },
  }),
  workloadAttack('no replicas', 'scaled', RESTARTS, { spec: { replicas: 0 } }),
];
