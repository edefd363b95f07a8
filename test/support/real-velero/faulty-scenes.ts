/** The objects of `faults.test.ts`: most of them break a policy, so they are created before it. */
import type { KubeObject } from '../../../src/json/kube-object.ts';
import type { Resource } from '../../../src/kube/object.ts';
import {
  configMaps,
  daemonSets,
  deployments,
  namespaces,
  secrets,
  services,
} from '../../../src/kube/well-known.ts';
import type { Cluster } from '../cluster.ts';
import { admissionPolicy } from '../objects.ts';
import { eventually } from '../processes.ts';
import { applicationPolicy, APPLICATIONS, ZONES } from '../restore-kinds.ts';
import type { BackupSpec } from './server.ts';
import { ownedBy, SCENE_LABEL, sceneObjects, type Scene } from './scenes.ts';

/** V2: its rule depends on a Zone that is restored later. */
export function awaitingScene(): Scene {
  const { app, zone } = sceneObjects('awaits');
  return {
    name: 'awaits',
    objects: [zone('red'), app('a', { zone: 'awaits-red' }, { labels: { awaits: 'yes' } })],
    restores: [{}],
  };
}

/**
 * V3: dependents of `k-owner` that break a rule after the restore. By their names, they are restored before their
 * owner, and linked in a sweep, or after it, and linked at admission.
 */
export function looseScene(): Scene {
  const { app } = sceneObjects('loose');
  const deferred = { labels: { deferred: 'yes' } };
  return {
    name: 'loose',
    objects: [
      app('k-owner', {}),
      app('a-zone', { zone: 'loose-gone' }, { labels: { awaits: 'yes' } }),
      app('b-slug', { slug: 'old' }, deferred),
      app('z-slug', { slug: 'old' }, deferred),
    ],
    afterCreation: async ({ admin }) => {
      const owner = await admin.get(APPLICATIONS, { namespace: 'loose', name: 'k-owner' });
      for (const name of ['a-zone', 'b-slug', 'z-slug'])
        await admin.patchMerge(APPLICATIONS, { namespace: 'loose', name }, ownedBy(owner));
    },
    restores: [{}],
  };
}

/** V6: `a` names a missing Zone before the restore, and has another immutable slug than in the backup. */
export function olderScene(): Scene {
  const { app } = sceneObjects('older');
  const made = (slug: string) => app('a', { zone: 'older-gone', slug });
  return {
    name: 'older',
    objects: [made('backup')],
    lose: async ({ admin }) => {
      await admin.delete(APPLICATIONS, { namespace: 'older', name: 'a' });
      await admin.create(APPLICATIONS, made('now'));
    },
    restores: [{ existingResourcePolicy: 'update' }],
  };
}

const rulesFor = (label: string, name: string, spec: object) =>
  admissionPolicy(name, {
    match: { ...applicationPolicy.spec.match, objectSelector: { matchLabels: { [label]: 'yes' } } },
    ...spec,
  });

export const rulesPolicies = [
  rulesFor('awaits', 'zone-rules', {
    validate: {
      references: [
        { name: 'zone', path: 'spec.zone', target: { apiGroup: ZONES.group, resource: ZONES.resource } },
      ],
      rules: [{ expression: 'refs.zone.metadata.name == object.spec.zone', message: 'another Zone' }],
    },
  }),
  rulesFor('deferred', 'slug-rules', {
    validate: { rules: [{ expression: "object.spec.slug != 'old'", message: 'an old slug' }] },
    restore: { rules: 'Defer' },
  }),
];

/** V1: kinds that Velero restores before the Zone that owns them. */
export const OWNED_KINDS: readonly Resource[] = [configMaps, secrets, services, deployments, daemonSets];
const LINKS = 'links';
export const linksBackup: BackupSpec = {
  labelSelector: { matchLabels: { [SCENE_LABEL]: LINKS } },
  includedResources: [...OWNED_KINDS, ZONES].map(({ group, resource }) =>
    group === '' ? resource : `${resource}.${group}`,
  ),
  includeClusterResources: true,
};
export const linkRef = { namespace: LINKS, name: 'owned' };

const ownersOf = (name: string, group: string) =>
  admissionPolicy(name, {
    match: {
      apiGroups: [group],
      apiVersions: ['v1'],
      resources: OWNED_KINDS.filter((kind) => kind.group === group).map(({ resource }) => resource),
      namespaceSelector: { matchLabels: { [SCENE_LABEL]: LINKS } },
    },
    owners: { preserve: true },
  });

/** Owners of built-in kinds, with the permissions that restore-windows.md#owner-references demands. */
export const linksPolicies = [ownersOf('core-owners', ''), ownersOf('apps-owners', 'apps')];
export const linksRole: KubeObject & { readonly rules: readonly object[] } = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRole',
  metadata: { name: 'gatehouse-links', labels: { 'gatehouse.dev/aggregate-to-references': 'true' } },
  rules: OWNED_KINDS.map(({ group, resource }) => ({
    apiGroups: [group],
    resources: [resource],
    verbs: ['get', 'list', 'watch', 'patch', 'delete'],
  })),
};

export async function createLinks({ admin }: Cluster): Promise<void> {
  const labels = { [SCENE_LABEL]: LINKS };
  await admin.create(namespaces, { metadata: { name: LINKS, labels } });
  const owner = await admin.create(ZONES, sceneObjects(LINKS).zone('owner'));
  const selector = { app: 'owned' };
  const template = {
    metadata: { labels: selector },
    spec: { containers: [{ name: 'app', image: 'registry.example.com/app' }] },
  };
  const workload = { selector: { matchLabels: selector }, template };
  const specs: Readonly<Record<string, object>> = {
    services: { ports: [{ port: 80 }] },
    deployments: { ...workload, replicas: 0 },
    daemonsets: workload,
  };
  for (const kind of OWNED_KINDS) {
    const spec = specs[kind.resource];
    const { metadata } = ownedBy(owner);
    const object = { metadata: { ...linkRef, labels, ...metadata }, ...(spec === undefined ? {} : { spec }) };
    await admin.create<KubeObject>(kind, object);
  }
}

export async function loseLinks({ admin }: Cluster): Promise<void> {
  await admin.delete(ZONES, { name: `${LINKS}-owner` });
  for (const kind of OWNED_KINDS) await admin.delete(kind, linkRef);
  const left = async () => {
    const found = await Promise.all(OWNED_KINDS.map((kind) => admin.get(kind, linkRef)));
    return found.every((one) => one === undefined);
  };
  await eventually('the dependents are gone', left);
}
