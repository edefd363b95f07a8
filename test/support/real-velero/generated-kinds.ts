/** Random objects of built-in kinds for generated backups, and what remains of them when they are restored. */
import { groupResourceName, type KubeObject } from '../../../src/json/kube-object.ts';
import { resourcePath, type Resource } from '../../../src/kube/object.ts';
import {
  clusterRoles,
  configMaps,
  customResourceDefinitions,
  deployments,
  namespaces,
  pods,
  roles,
  secrets,
  services,
} from '../../../src/kube/well-known.ts';
import type { Cluster } from '../cluster.ts';
import { resourceOf } from '../definitions.ts';
import { eventually } from '../processes.ts';
import { APPLICATIONS, ZONES } from '../restore-kinds.ts';
import type { Seeded } from '../seeded.ts';
import { namespacesOf, SCENE_LABEL, type Scene } from './scenes.ts';

type Built = KubeObject & Readonly<Record<string, unknown>>;

const RBAC = 'rbac.authorization.k8s.io';
const accounts = resourceOf('', 'serviceaccounts', 'ServiceAccount');
const claims = resourceOf('', 'persistentvolumeclaims', 'PersistentVolumeClaim');
const volumes = resourceOf('', 'persistentvolumes', 'PersistentVolume', false);
const jobs = resourceOf('batch', 'jobs', 'Job');
const roleBindings = resourceOf(RBAC, 'rolebindings', 'RoleBinding');
const clusterRoleBindings = resourceOf(RBAC, 'clusterrolebindings', 'ClusterRoleBinding', false);

/** In an order in which they can be created. */
export const BUILT_IN: readonly Resource[] = [
  ...[accounts, configMaps, secrets, services, roles, clusterRoles, roleBindings, clusterRoleBindings],
  ...[volumes, claims, pods, jobs, deployments],
];
export const RESTORED_KINDS: readonly Resource[] = [
  ...[customResourceDefinitions, namespaces, ...BUILT_IN, APPLICATIONS, ZONES],
];
export const kindOf = ({ kind }: KubeObject): Resource => {
  const found = RESTORED_KINDS.find((one) => one.kind === kind);
  if (found === undefined) throw new Error(`${kind ?? ''} is not generated`);
  return found;
};

const app = { app: 'shop' };
const container = { name: 'app', image: 'registry.example.com/app' };
const robots = (namespace: string) => [{ kind: 'ServiceAccount', namespace, name: 'robot' }];
const rules = [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get'] }];
const storage = { accessModes: ['ReadWriteOnce'], storageClassName: '' };
const roleRef = (kind: string, name: string) => ({ apiGroup: RBAC, kind, name });

/** Node ports are one pool for the cluster. */
let nodePort = 30_000;

export function builtInObjects(scene: string, places: readonly string[], seeded: Seeded): readonly Built[] {
  const found = places.flatMap((namespace) => inNamespace(namespace, places, seeded));
  const name = `${scene}-reader`;
  const ofCluster: readonly Built[] = [
    { kind: 'ClusterRole', metadata: { name }, rules },
    {
      kind: 'ClusterRoleBinding',
      metadata: { name },
      roleRef: roleRef('ClusterRole', name),
      subjects: robots(seeded.pick(places)),
    },
  ];
  const chosen = [...found, ...ofCluster.filter(() => seeded.chance(0.4))];
  const labelled = chosen.map((one) => ({
    ...one,
    metadata: {
      ...one.metadata,
      labels: { [SCENE_LABEL]: scene, ...(seeded.chance(0.7) ? { part: 'yes' } : {}) },
    },
  }));
  const rank = (one: KubeObject) => BUILT_IN.indexOf(kindOf(one));
  return labelled.toSorted((a, b) => rank(a) - rank(b));
}

function inNamespace(namespace: string, places: readonly string[], seeded: Seeded): readonly Built[] {
  const at = (name: string) => ({ namespace, name });
  const volume = `${namespace}-volume`;
  const bound = seeded.chance(0.5);
  const [image, type] = [container, seeded.pick(['ClusterIP', 'NodePort', 'ExternalName'])];
  const chosenPort = type === 'NodePort' && seeded.chance(0.5) ? { nodePort: nodePort++ } : {};
  const template = { metadata: { labels: app }, spec: { containers: [image], restartPolicy: 'Never' } };
  const byChance: readonly (readonly Built[])[] = [
    [{ kind: 'ConfigMap', metadata: at('settings'), data: { a: '1' }, immutable: seeded.chance(0.3) }],
    [{ kind: 'Secret', metadata: at('key'), data: { a: 'MQ==' } }],
    [
      {
        kind: 'Service',
        metadata: at('web'),
        spec:
          type === 'ExternalName'
            ? { type, externalName: 'example.com' }
            : { type, selector: app, ports: [{ port: 80, ...chosenPort }] },
      },
    ],
    [{ kind: 'Service', metadata: at('peers'), spec: { clusterIP: 'None', ports: [{ port: 80 }] } }],
    [
      { kind: 'Role', metadata: at('reader'), rules },
      {
        kind: 'RoleBinding',
        metadata: at('reader'),
        roleRef: roleRef('Role', 'reader'),
        subjects: robots(seeded.pick(places)),
      },
    ],
    [
      {
        kind: 'PersistentVolume',
        metadata: { name: volume },
        spec: {
          ...storage,
          capacity: { storage: '1Gi' },
          hostPath: { path: '/tmp/none' },
          persistentVolumeReclaimPolicy: seeded.pick(['Retain', 'Delete']),
          ...(bound ? { claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', ...at('data') } } : {}),
        },
      },
      {
        kind: 'PersistentVolumeClaim',
        metadata: at('data'),
        spec: {
          ...storage,
          resources: { requests: { storage: '1Gi' } },
          ...(bound ? { volumeName: volume } : {}),
        },
      },
    ],
    [
      { kind: 'ServiceAccount', metadata: at('robot'), imagePullSecrets: [{ name: 'key' }] },
      { kind: 'Pod', metadata: at('once'), spec: { ...template.spec, serviceAccountName: 'robot' } },
    ],
    [
      {
        kind: 'Job',
        metadata: at('import'),
        spec: { template, ...(seeded.chance(0.5) ? { completions: 0 } : { suspend: true }) },
      },
    ],
    [
      {
        kind: 'Deployment',
        metadata: at('shop'),
        spec: {
          replicas: 0,
          selector: { matchLabels: app },
          template: { ...template, spec: { containers: [image] } },
        },
      },
    ],
  ];
  return byChance.filter(() => seeded.chance(0.4)).flat();
}

/** Also waits for the status that controllers write: the backup must contain it. */
export async function createBuiltIns({ admin }: Cluster, objects: readonly Built[]): Promise<void> {
  for (const one of objects) await admin.create<KubeObject>(kindOf(one), one);
  const isSettled = async (one: Built): Promise<boolean> => {
    const stored = await admin.get<Built>(kindOf(one), refOf(one));
    const { phase, completionTime } = (stored?.status ?? {}) as Readonly<Record<string, string>>;
    const { volumeName, completions } = (one.spec ?? {}) as Readonly<Record<string, unknown>>;
    if (volumeName !== undefined) return phase === 'Bound';
    return completions === undefined || completionTime !== undefined;
  };
  await eventually('the controllers are done', async () =>
    (await Promise.all(objects.map(isSettled))).every(Boolean),
  );
}

const refOf = ({ metadata }: KubeObject) => ({ namespace: metadata?.namespace, name: metadata?.name ?? '' });

/** What users cannot change later, or another annotation. */
function changed(object: Built): Built {
  const { metadata, ...others } = object;
  const changes: Readonly<Record<string, object>> = {
    ConfigMap: { data: { a: '2' } },
    RoleBinding: { roleRef: roleRef('ClusterRole', 'view') },
    ServiceAccount: { imagePullSecrets: [{ name: 'other' }] },
  };
  return {
    ...others,
    ...changes[object.kind ?? ''],
    metadata: { ...metadata, annotations: { changed: 'yes' } },
  };
}

/** Of each object: it is lost, it is still there, or a different one has its name. */
export function fatesOf(objects: readonly Built[], seeded: Seeded) {
  const pick = () => seeded.pick(['lost', 'lost', 'kept', 'changed'] as const);
  // A volume can only be deleted together with its claim, and a Pod only be created with its account.
  const [ofVolumes, ofPods] = [pick(), pick()];
  const shared: Readonly<Record<string, ReturnType<typeof pick>>> = {
    ...{ PersistentVolume: ofVolumes, PersistentVolumeClaim: ofVolumes },
    ...{ ServiceAccount: ofPods, Pod: ofPods },
  };
  return objects.map((object) => ({
    object,
    fate: shared[object.kind ?? ''] ?? pick(),
  }));
}

export async function meetFates({ admin }: Cluster, fates: ReturnType<typeof fatesOf>): Promise<void> {
  const lost = fates.filter(({ fate }) => fate !== 'kept').map(({ object }) => object);
  for (const one of lost.toReversed()) await admin.delete(kindOf(one), refOf(one));
  for (const one of lost)
    await eventually(
      `${one.kind ?? ''} ${one.metadata?.name ?? ''} is gone`,
      async () => (await admin.get(kindOf(one), refOf(one))) === undefined,
    );
  for (const { object, fate } of fates)
    if (fate === 'changed') await admin.create(kindOf(object), changed(object));
}

export async function clearBuiltIns({ adminRest }: Cluster, scene: Scene): Promise<void> {
  const query = { labelSelector: `${SCENE_LABEL}=${scene.name}` };
  const copies = scene.restores.flatMap(({ namespaceMapping = {} }) => Object.values(namespaceMapping));
  const places = [...namespacesOf(scene), ...copies];
  for (const kind of BUILT_IN)
    for (const namespace of kind.namespaced ? places : [undefined])
      await adminRest.request({ method: 'DELETE', path: resourcePath(kind, { namespace }), query });
}

export const builtInNames = [namespaces, ...BUILT_IN].map(groupResourceName);
