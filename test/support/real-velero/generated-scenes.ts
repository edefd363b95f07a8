/** Random backups with everything that a rehearsal predicts: references, rules, owners, mappings, selectors and existing objects. */
import type { KubeObject } from '../../../src/json/kube-object.ts';
import {
  application,
  APPLICATIONS,
  REFUSED_SLUG,
  zone,
  type Application,
  type ApplicationSpec,
} from '../restore-kinds.ts';
import { configMaps } from '../../../src/kube/well-known.ts';
import type { Seeded } from '../seeded.ts';
import { clearScene, ownedBy, SCENE_LABEL, type Scene } from './scenes.ts';
import type { RestoreSpec } from './server.ts';
import { builtInNames, builtInObjects, createBuiltIns, fatesOf, meetFates } from './generated-kinds.ts';
import { asReturned } from '../restore-scene.ts';

/** The policies must not be in force when it is created. @param name unique among scenes */
export function generatedScene(name: string, seeded: Seeded): Scene {
  const { backup, spec: selection } = randomGraph(name, seeded);
  const objects: readonly KubeObject[] = backup;
  const apps = objects.filter(isApplication).map((app) => generatedApp(name, app, seeded));
  const zones = objects
    .filter((object) => !isApplication(object))
    .map(({ metadata }) => metadata?.name ?? '');
  const owners = seeded.chance(0.6) ? ownersAmong(apps, seeded) : [];
  const existing = existingAmong(apps, selection, seeded);
  const labelSelector = { matchLabels: { part: 'yes' } };
  const orLabelSelectors = [labelSelector, { matchLabels: { awaits: 'yes' } }];
  const part = seeded.chance(0.2) ? seeded.pick([{ labelSelector }, { orLabelSelectors }]) : {};
  const existingResourcePolicy = seeded.pick(['none', 'update', 'update'] as const);
  const update = seeded.chance(0.8) ? { existingResourcePolicy } : {};
  const spec: RestoreSpec = { ...selection, ...part, ...update, ...otherOptions(seeded) };
  const places = [...new Set(apps.flatMap(({ metadata }) => metadata?.namespace ?? []))];
  const built = builtInObjects(name, places, seeded);
  const fates = fatesOf(built, seeded);
  const policy = seeded.chance(0.3) ? resourcePolicy(name, places, seeded) : undefined;
  const scene: Scene = {
    name,
    objects: [
      ...zones.map((one) => ({ ...zone(one), metadata: { name: one, labels: labelsOf(name, seeded) } })),
      ...apps,
    ],
    otherKinds: builtInNames,
    afterCreation: async (cluster) => {
      const { admin } = cluster;
      await createBuiltIns(cluster, built);
      for (const { child, owner } of owners) {
        const found = await admin.get(APPLICATIONS, placeOf(owner));
        await admin.patchMerge(APPLICATIONS, placeOf(child), ownedBy(found));
      }
    },
    lose: async (cluster) => {
      await clearScene(cluster, scene);
      await meetFates(cluster, fates);
      for (const one of existing) await cluster.admin.create(APPLICATIONS, one);
      if (policy !== undefined) await cluster.admin.create(configMaps, policy);
    },
    restores: [
      policy === undefined
        ? spec
        : { ...spec, resourcePolicy: { kind: 'ConfigMap', name: policy.metadata.name } },
    ],
  };
  return scene;
}

const isApplication = (object: KubeObject): object is Application => object.kind === APPLICATIONS.kind;
const placeOf = ({ metadata }: KubeObject) => ({
  namespace: metadata?.namespace,
  name: metadata?.name ?? '',
});

const labelsOf = (scene: string, seeded: Seeded) => ({
  [SCENE_LABEL]: scene,
  ...(seeded.chance(0.7) ? { part: 'yes' } : {}),
});

/** The labels `awaits` and `deferred` bring rules: see faulty-scenes.ts. */
function generatedApp(scene: string, { metadata, spec }: Application, seeded: Seeded): Application {
  const awaits = spec.zone !== undefined && seeded.chance(0.25);
  const deferred = spec.slug === undefined && seeded.chance(0.2);
  const labels = {
    ...labelsOf(scene, seeded),
    ...(awaits ? { awaits: 'yes' } : {}),
    ...(deferred ? { deferred: 'yes' } : {}),
  };
  const { namespace = '', name = '' } = metadata ?? {};
  return application(namespace, name, { ...spec, ...(deferred ? { slug: 'old' } : {}) }, { labels });
}

/** No cycles: the garbage collector would not mind, but no cluster has them. */
function ownersAmong(apps: readonly Application[], seeded: Seeded) {
  const ordered = seeded.shuffle(apps);
  return ordered.flatMap((child, index) => {
    const others = ordered
      .slice(index + 1)
      .filter(({ metadata }) => metadata?.namespace === child.metadata?.namespace);
    return others.length > 0 && seeded.chance(0.4) ? [{ child, owner: seeded.pick(others) }] : [];
  });
}

/** What exists: with another Zone, with another immutable slug, or unchanged. */
function existingAmong(
  apps: readonly Application[],
  { namespaceMapping }: RestoreSpec,
  seeded: Seeded,
): readonly Application[] {
  if (namespaceMapping !== undefined || seeded.chance(0.5)) return [];
  return apps
    .filter(() => seeded.chance(0.3))
    .map((app) => {
      const spec: ApplicationSpec = {
        ...app.spec,
        ...(seeded.chance(0.4) ? { zone: 'nowhere' } : {}),
        ...(seeded.chance(0.4) ? { slug: 'now' } : {}),
      };
      return { ...app, spec };
    });
}

function otherOptions(seeded: Seeded): RestoreSpec {
  const excluded = seeded.pick([
    'configmaps',
    'serviceaccounts',
    'persistentvolumes',
    'zones.restore.example.com',
  ]);
  return {
    ...(seeded.chance(0.15) ? { excludedResources: [excluded] } : {}),
    ...(seeded.chance(0.3) ? { includeClusterResources: seeded.chance(0.5) } : {}),
    ...(seeded.chance(0.3) ? { preserveNodePorts: true } : {}),
    ...(seeded.chance(0.2) ? { restoreStatus: { includedResources: ['*'] } } : {}),
  };
}

const FILTERED = ['Application', 'configmaps', 'services', 'Deployment', 'pods', 'secrets', 'no-such-kind'];

/** Filters by kind, in all forms that Velero knows: a plural, a kind, unknown names, `*`; with globs and labels. */
function resourcePolicy(scene: string, places: readonly string[], seeded: Seeded) {
  const conditionsOf = () => ({
    ...(seeded.chance(0.4) ? { labelSelector: { matchLabels: { part: 'yes' } } } : {}),
    ...(seeded.chance(0.3) ? { names: ['*0', `*${seeded.below(4)}`, '*[a-m]'] } : {}),
    ...(seeded.chance(0.2) ? { excludedNames: ['*1'] } : {}),
  });
  const kinds = seeded.shuffle(FILTERED).slice(0, 1 + seeded.below(4));
  const { labelSelector } = conditionsOf();
  const policies = (seeded.chance(0.5) ? [`${scene}-*`] : places.slice(0, 1)).map((namespace) => ({
    namespaces: [namespace],
    resourceFilters: [
      ...kinds.map((kind) => ({ kinds: [kind], ...conditionsOf() })),
      ...(seeded.chance(0.5) ? [{ kinds: ['*'], labelSelector }] : []),
    ],
  }));
  const cluster = { resourceFilters: [{ kinds: ['zones.restore.example.com'], ...conditionsOf() }] };
  const policy = {
    version: 'v1',
    ...(seeded.chance(0.4) ? { clusterScopedFilterPolicy: cluster } : {}),
    namespacedFilterPolicies: policies,
  };
  const metadata = { namespace: 'velero', name: `${scene}-policy` };
  return { metadata, data: { 'policy.yaml': JSON.stringify(policy) } };
}

interface Ref {
  readonly namespace: string;
  readonly name: string;
}

/** Share of the objects that the backup leaves out. */
const LEFT_OUT = 0.15;

function randomGraph(name: string, seeded: Seeded) {
  const namespaces = Array.from({ length: 1 + seeded.below(3) }, (_, index) => `${name}-n${index}`);
  const zones = Array.from({ length: 1 + seeded.below(3) }, (_, index) => `${name}-z${index}`);
  const refs: readonly Ref[] = Array.from({ length: 2 + seeded.below(9) }, (_, index) => ({
    namespace: seeded.pick(namespaces),
    name: `app-${index}`,
  }));
  const objects = [
    ...refs.map((ref) => application(ref.namespace, ref.name, specOf(ref, refs, zones, seeded))),
    ...zones.map(zone),
  ].map(asReturned);
  const mapping = seeded.chance(0.3)
    ? Object.fromEntries(namespaces.filter(() => seeded.chance(0.6)).map((one) => [one, `${one}-copy`]))
    : {};
  const included = seeded.chance(0.2) ? [seeded.pick([...namespaces, `${name}-n*`])] : undefined;
  const backup = seeded.shuffle(objects.filter(() => !seeded.chance(LEFT_OUT)));
  const spec: RestoreSpec = {
    ...(Object.keys(mapping).length === 0 ? {} : { namespaceMapping: mapping }),
    ...(included && { includedNamespaces: included }),
  };
  return { backup, spec };
}

function specOf(
  { namespace }: Ref,
  refs: readonly Ref[],
  zones: readonly string[],
  seeded: Seeded,
): ApplicationSpec {
  const here = refs.filter((ref) => ref.namespace === namespace);
  return {
    ...(seeded.chance(0.6) ? { zone: seeded.pick(zones) } : {}),
    ...(seeded.chance(0.5) ? { parent: seeded.pick(here).name } : {}),
    ...(seeded.chance(0.4) ? { peer: seeded.pick(refs) } : {}),
    ...(seeded.chance(0.15) ? { slug: REFUSED_SLUG } : {}),
  };
}
