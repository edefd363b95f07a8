/** The objects into which Gatehouse injects a CA bundle, and the Secrets and ConfigMaps from which it takes bundles. */
import { keyOf, objectKey, type KubeObject } from '../../../json/kube-object.ts';
import { mapConcurrent } from '../../../json/map-concurrent.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../admission/webhooks/webhook-configurations.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { Resource } from '../../../kube/object.ts';
import { certificates, configMaps, secrets } from '../../../kube/well-known.ts';
import { CABUNDLE_CONFIGMAP, INJECT_CABUNDLE, TRUST_BUNDLE } from '../../../pki/annotations.ts';
import {
  injectionRequest,
  sourceName,
  sourcesOf,
  type Compat,
  type InjectionRequest,
  type SourceRef,
} from '../../../pki/injection/request.ts';
import { toSourceObject, type SourceObject } from '../../../pki/injection/source.ts';
import { TARGET_KINDS, type RawTarget, type TargetKind } from '../../../pki/injection/target.ts';
import type { Restrictions } from '../../../runtime/leadership/own-lease.ts';
import { placesOf } from '../../../runtime/namespaces.ts';
import { CLUSTER_TRUST_BUNDLES, INJECTION_TARGETS, OWN_TARGETS } from '../../../runtime/resources.ts';
import { mapReading, orEmpty, permissionTo, read, tryToRead, valueOf, type Reading } from './reading.ts';

export interface Scope {
  /** The namespace of Gatehouse. */
  readonly namespace: string;
  /** As in the settings of `gatehouse serve`. */
  readonly compat: readonly Compat[];
}

/** The objects of one kind that request a CA bundle, including those of Gatehouse itself. */
export interface TargetsReading {
  readonly kind: TargetKind;
  readonly objects: Reading<readonly RawTarget[]>;
}

/** The sources of bundles other than the authority, by {@link sourceName}. */
export type SourceReadings = ReadonlyMap<string, Reading<SourceObject | undefined>>;

type Client = Pick<KubeClient, 'get' | 'listAll'>;

const MAX_CONCURRENT_READS = 8;

/** Whether the metadata of an object shows that it is to be read. */
type IsWanted = (kind: TargetKind, object: KubeObject) => boolean;

export const readTargets = (
  client: Client,
  isWanted: IsWanted,
  timeoutMs: number,
  { without, namespaces }: Restrictions = { without: [], namespaces: undefined },
  ownNamespace?: string,
): Promise<readonly TargetsReading[]> => {
  const isOff = without.includes('injection');
  const kinds = INJECTION_TARGETS.filter(([{ kind }]) => !isOff || OWN_TARGETS.has(kind));
  return Promise.all(
    kinds.map(([kind, resource]) => {
      const ofConfigMap = resource.namespaced;
      const own = ofConfigMap ? CABUNDLE_CONFIGMAP : WEBHOOK_CONFIGURATION_NAME;
      const places = isOff && ofConfigMap ? [ownNamespace] : placesOf(resource, namespaces);
      const scope = { places, fieldSelector: isOff ? `metadata.name=${own}` : undefined };
      return readTargetsOf(client, kind, resource, scope, isWanted, timeoutMs);
    }),
  );
};

/** Gatehouse's ClusterTrustBundle, in the newest version that the API server serves, if any. */
export async function readTrustBundle(client: Client, timeoutMs: number): Promise<TargetsReading> {
  const fieldSelector = `metadata.name=${TRUST_BUNDLE}`;
  let objects: Reading<readonly RawTarget[]> = read([]);
  for (const resource of CLUSTER_TRUST_BUNDLES) {
    const found = await tryToRead(permissionTo('list', resource), async () => {
      const { items } = await client.listAll<RawTarget & KubeObject>(resource, { fieldSelector, timeoutMs });
      return items;
    });
    objects = orEmpty(found);
    if (found.kind === 'read' || found.reason !== 'NotInstalled') break;
  }
  return { kind: TARGET_KINDS.clusterTrustBundle, objects };
}

/** The targets of Gatehouse. */
export const isTarget =
  (scope: Scope): IsWanted =>
  (kind, object) =>
    requestOf(kind, object, scope).kind !== 'none';

/** Clusters can have many large ConfigMaps and CRDs: list the metadata of all, and get only the targets. */
async function readTargetsOf(
  client: Client,
  kind: TargetKind,
  resource: Resource,
  { places, fieldSelector }: { places: readonly (string | undefined)[]; fieldSelector: string | undefined },
  isWanted: IsWanted,
  timeoutMs: number,
): Promise<TargetsReading> {
  const objects = await tryToRead(permissionTo('list', resource), async () => {
    const lists = await Promise.all(
      places.map((namespace) =>
        client.listAll(resource, { namespace, fieldSelector, metadataOnly: true, timeoutMs }),
      ),
    );
    const wanted = lists.flatMap(({ items }) => items).filter((object) => isWanted(kind, object));
    const found = await mapConcurrent(wanted, MAX_CONCURRENT_READS, ({ metadata = {} }) => {
      const { namespace, name = '' } = metadata;
      return client.get<RawTarget & KubeObject>(resource, { namespace, name }, { timeoutMs });
    });
    // Undefined: deleted since the list.
    return found.filter((object) => object !== undefined).toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  });
  return { kind, objects };
}

export async function readSources(
  client: Client,
  targets: readonly TargetsReading[],
  scope: Scope,
  timeoutMs: number,
): Promise<SourceReadings> {
  const refs = new Map<string, SourceRef>();
  for (const { kind, objects } of targets)
    for (const object of valueOf(objects) ?? [])
      for (const ref of sourcesOf(requestOf(kind, object, scope))) refs.set(sourceName(ref), ref);
  const sources = new Map<string, Reading<SourceObject | undefined>>();
  for (const [key, ref] of refs) {
    const { kind, namespace } = ref;
    if (kind !== 'Certificate') {
      sources.set(key, await readSource(client, { ...ref, kind }, timeoutMs));
      continue;
    }
    const secret = await readSecretName(client, ref, timeoutMs);
    const name = valueOf(secret);
    const reading = (): Promise<SourceReading> =>
      name === undefined
        ? Promise.resolve(mapReading(secret, () => undefined))
        : readSource(client, { kind: 'Secret', namespace, name }, timeoutMs);
    sources.set(key, await reading());
  }
  return sources;
}

type SourceReading = Reading<SourceObject | undefined>;

function readSource(
  client: Client,
  { kind, namespace, name }: SourceRef & { readonly kind: 'Secret' | 'ConfigMap' },
  timeoutMs: number,
): Promise<SourceReading> {
  const resource = kind === 'Secret' ? secrets : configMaps;
  return tryToRead(permissionTo('get', resource, namespace), async () => {
    const source = await client.get<SourceObject & KubeObject>(resource, { namespace, name }, { timeoutMs });
    return source === undefined ? undefined : toSourceObject(source);
  });
}

/** The Secret of a Certificate. By a list: Gatehouse itself, which serves the status page, may only list them. */
const readSecretName = (
  client: Client,
  { namespace, name }: SourceRef,
  timeoutMs: number,
): Promise<Reading<string | undefined>> =>
  tryToRead(permissionTo('list', certificates, namespace), async () => {
    const fieldSelector = `metadata.name=${name}`;
    const { items } = await client.listAll<KubeObject & { readonly spec?: { readonly secretName?: string } }>(
      certificates,
      { namespace, fieldSelector, timeoutMs },
    );
    return items[0]?.spec?.secretName;
  });

const requestOf = (kind: TargetKind, object: KubeObject, scope: Scope): InjectionRequest =>
  injectionRequest(kind.kind, withOwnRequest(kind, object, scope).metadata, scope.compat);

/** Gatehouse injects its own objects without an annotation: add the annotation to them. */
export function withOwnRequest<T extends KubeObject>(kind: TargetKind, object: T, { namespace }: Scope): T {
  const { metadata = {} } = object;
  const own = kind.kind === 'ConfigMap' ? `${namespace}/${CABUNDLE_CONFIGMAP}` : WEBHOOK_CONFIGURATION_NAME;
  const isOwn =
    (kind.kind === 'ConfigMap' || kind.kind.endsWith('WebhookConfiguration')) && objectKey(metadata) === own;
  return isOwn
    ? { ...object, metadata: { ...metadata, annotations: { [INJECT_CABUNDLE]: 'true' } } }
    : object;
}
