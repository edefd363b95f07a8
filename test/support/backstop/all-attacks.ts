/** What a thief with the token of the controllers may try. */
import { idOf, merges, meta, owner, TENANT } from './attack.ts';
import type { Attack, Attempt, Json, Strings } from './attack.ts';
import { ON_CONFIG_MAPS } from './on-config-maps.ts';
import { ON_DEFINITIONS } from './on-definitions.ts';
import { ON_SECRETS } from './on-secrets.ts';
import { ON_WEBHOOKS } from './on-webhooks.ts';
import { INSTALLATION_ROLE } from '../../../src/admission/webhooks/installation-owner.ts';
import { clusterRoles, deployments } from '../../../src/kube/well-known.ts';
import type { Resource } from '../../../src/kube/object.ts';

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
const workloadAttack = (name: string, annotations: Strings, patch: object): Attempt => ({
  name,
  before: deployment(idOf(name), annotations),
  write: merges(deployments, idOf(name), patch, TENANT),
});

const ON_WORKLOADS: readonly Attempt[] = [
  workloadAttack('a restart that no workload requests', {}, restart),
  workloadAttack('a restart and the request in one write', {}, requested),
  workloadAttack('another program', RESTARTS, {
    spec: { template: { spec: { containers: [{ name: 'app', image: 'example.com/thief' }] } } },
  }),
  workloadAttack('another account', RESTARTS, {
    spec: { template: { spec: { serviceAccountName: 'admin' } } },
  }),
  workloadAttack('another annotation of pods', RESTARTS, {
    spec: { template: { metadata: { annotations: { 'sidecar.example.com/inject': 'thief' } } } },
  }),
  workloadAttack('no replicas', RESTARTS, { spec: { replicas: 0 } }),
];

const roleAttack = (name: string, patch: object): Attempt => ({
  name,
  write: merges(clusterRoles, INSTALLATION_ROLE, patch),
});

const ON_INSTALLATION: readonly Attempt[] = [
  roleAttack('rules', { rules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }] }),
  roleAttack('a label that aggregates the role', {
    metadata: { labels: { 'rbac.authorization.k8s.io/aggregate-to-view': 'true' } },
  }),
  roleAttack('another owner', { metadata: { ownerReferences: [owner('thief')] } }),
  // Last, because the administrator then also deletes it.
  {
    name: 'the role, deleted',
    write: (client) => client.delete(clusterRoles, { name: INSTALLATION_ROLE }),
  },
];

const of = (policy: Attack['policy'], attacks: readonly Attempt[]): readonly Attack[] =>
  attacks.map((attack) => ({ ...attack, policy }));

export const ATTACKS: readonly Attack[] = [
  ...of('secrets', ON_SECRETS),
  ...of('config-maps', ON_CONFIG_MAPS),
  ...of('webhooks', ON_WEBHOOKS),
  ...of('definitions', ON_DEFINITIONS),
  ...of('workloads', ON_WORKLOADS),
  ...of('installation', ON_INSTALLATION),
];
