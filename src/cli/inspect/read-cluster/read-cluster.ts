/** Reads the parts of a cluster that `gatehouse status` and the status page show. Writes nothing. */
import { textIn } from '../../../json/json.ts';
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import type { ConfigMap } from '../../../runtime/certificates/ca-bundle.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { LeaseObject } from '../../../kube/lease/lease-record.ts';
import type { Resource, NamedRef } from '../../../kube/object.ts';
import { type KubeObject, keyOf, objectKey } from '../../../json/kube-object.ts';
import {
  certificates,
  configMaps,
  leases,
  pods as PODS,
  secrets,
  services as SERVICES,
} from '../../../kube/well-known.ts';
import {
  annotationProblem,
  AUTHORITY_SECRET,
  CABUNDLE_CONFIGMAP,
  SERVING_CERT_SELECTOR,
  SERVING_SECRET,
  INJECT_CABUNDLE,
  TRUST_BUNDLE,
} from '../../../pki/annotations.ts';
import { toStoredSecret } from '../../../pki/serving-certs/facts.ts';
import type { Secret } from '../../../pki/serving-certs/secret.ts';
import {
  propagationWaitOf,
  restrictionsOf,
  type Restrictions,
} from '../../../runtime/leadership/own-lease.ts';
import { CONTROLLERS_CONFIGMAP } from '../../../runtime/controllers/published.ts';
import { SERVED_CERTS_CONFIGMAP } from '../../../runtime/endpoints/report.ts';
import { placesOf } from '../../../runtime/namespaces.ts';
import {
  ADMISSION_POLICIES,
  RESTORE_WINDOWS,
  CLUSTER_TRUST_BUNDLES,
  INJECTION_TARGETS,
  OWN_TARGETS,
} from '../../../runtime/resources.ts';
import {
  createReader,
  joinReadings,
  mapReading,
  read,
  readAll,
  valueOf,
  type Reader,
  type Problems,
  type Reading,
  orEmpty,
  presentAmong,
} from './reading.ts';
import { mapConcurrent } from '../../../json/map-concurrent.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../admission/webhooks/webhook-configurations.ts';
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

export type ClusterReadings = Awaited<ReturnType<typeof readCluster>>;

export interface Pod extends KubeObject {
  readonly spec?: {
    readonly nodeName?: string;
    readonly containers?: readonly { readonly image?: string }[];
  };
  readonly status?: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly {
      readonly restartCount?: number;
      readonly state?: { readonly waiting?: { readonly reason?: string; readonly message?: string } };
      readonly lastState?: {
        readonly terminated?: {
          readonly exitCode: number;
          readonly reason?: string;
          readonly message?: string;
        };
      };
    }[];
  };
}

/** Why a container does not run, with its last exit code and the last error in its log. Undefined: it runs. */
export function waitingFor({ status }: Pod): string | undefined {
  const { state, lastState } =
    status?.containerStatuses?.find((one) => one.state?.waiting !== undefined) ?? {};
  const { reason = '', message } = state?.waiting ?? {};
  if (reason === '' || reason === 'ContainerCreating' || reason === 'PodInitializing') return undefined;
  const last = lastState?.terminated;
  if (last === undefined) return message === undefined ? reason : `${reason}: ${message}`;
  const lines = (last.message ?? '').trimEnd().split('\n');
  const line = lines.findLast((one) => /error|fatal/i.test(one)) ?? lines.at(-1) ?? '';
  const exit = `${reason}: it ended with exit code ${last.exitCode} (${last.reason ?? 'unknown'})`;
  return line === '' ? exit : `${exit}: ${line}`;
}

export const INSTALLATION_NAME = 'gatehouse';

/** One slow part must not delay the others for long. */
const TIMEOUT_MS = 15_000;

const POD_SELECTOR = 'app.kubernetes.io/name in (gatehouse,gatehouse-controllers)';

/** @param asked may lack what the Lease of the leader says @param isLeader has no memory for the metadata of all Secrets */
export async function readCluster(
  client: Pick<KubeClient, 'get' | 'listAll'>,
  { namespace, compat: asked = [] }: Pick<Scope, 'namespace'> & Partial<Scope>,
  isLeader = false,
) {
  const reader = createReader(client, TIMEOUT_MS);
  const { get, list } = reader;
  const lease = await get<LeaseObject>(leases, { namespace, name: INSTALLATION_NAME });
  const restrictions = restrictionsOf(valueOf(lease));
  const { without, namespaces } = restrictions;
  const compat: readonly Compat[] = [...new Set([...asked, ...restrictions.compat])];
  const scope = { namespace, compat };
  const isOff = without.includes('certificates');
  const certificates = isOff ? { namespace, fieldSelector: `metadata.name=${SERVING_SECRET}` } : {};
  const { servingSecrets, otherSecrets, annotated, own, ...readings } = await readAll({
    pods: list<Pod>(PODS, { namespace, labelSelector: POD_SELECTOR }),
    /** Contains private keys: show only what {@link parseAuthority} makes public. */
    authority: get<Secret>(secrets, { namespace, name: AUTHORITY_SECRET }),
    caBundle: get<ConfigMap>(configMaps, { namespace, name: CABUNDLE_CONFIGMAP }),
    servedCerts: get<ConfigMap>(configMaps, { namespace, name: SERVED_CERTS_CONFIGMAP }),
    userControllers: get<ConfigMap>(configMaps, { namespace, name: CONTROLLERS_CONFIGMAP }),
    servingSecrets: listIn<Secret>(reader, secrets, namespaces, {
      ...certificates,
      labelSelector: SERVING_CERT_SELECTOR,
    }),
    services: isOff
      ? read<readonly KubeObject[]>([])
      : listIn(reader, SERVICES, namespaces, { metadataOnly: true }),
    otherSecrets: isOff || isLeader ? read([]) : listIn(reader, secrets, namespaces, { metadataOnly: true }),
    annotated: readTargets(reader, scope, restrictions),
    own: without.includes('injection') ? undefined : readTrustBundle(reader),
    policies: list<AdmissionPolicy>(ADMISSION_POLICIES),
    windows: without.includes('restores')
      ? read<readonly RestoreWindow[]>([])
      : list<RestoreWindow>(RESTORE_WINDOWS),
  });
  const targets = [...annotated, ...(own === undefined ? [] : [own])];
  return {
    restrictions,
    compat,
    propagationWaitMs: propagationWaitOf(valueOf(lease)),
    ...readings,
    lease,
    targets,
    misplaced: [...misplacedIn('Service', readings.services), ...misplacedIn('Secret', otherSecrets)],
    // Keeps no private key: only whether the key fits the certificate.
    servingSecrets: mapReading(servingSecrets, (items) => items.map(toStoredSecret)),
    sources: await readSources(reader, targets, scope),
  };
}

const misplacedIn = (kind: string, objects: Reading<readonly KubeObject[]>): Problems =>
  (valueOf(objects) ?? []).flatMap((object) => {
    const message = annotationProblem(kind, object.metadata?.annotations);
    return message === undefined ? [] : [{ object: `${kind} ${keyOf(object)}`, message }];
  });

async function listIn<T extends KubeObject>(
  { list }: Reader,
  resource: Resource,
  namespaces: Restrictions['namespaces'],
  options: Parameters<Reader['list']>[1],
): Promise<Reading<readonly T[]>> {
  const places = options?.namespace === undefined ? placesOf(resource, namespaces) : [options.namespace];
  return joinReadings(
    await Promise.all(places.map((namespace) => list<T>(resource, { ...options, namespace }))),
  );
}

export interface Scope {
  readonly namespace: string;
  readonly compat: readonly Compat[];
}

export interface TargetsReading {
  readonly kind: TargetKind;
  readonly objects: Reading<readonly RawTarget[]>;
}

export type SourceReadings = ReadonlyMap<string, Reading<SourceObject | undefined>>;

const MAX_CONCURRENT_READS = 8;

/** Clusters can have many large ConfigMaps and CRDs: list the metadata of all, and get only the targets. */
function readTargets(
  reader: Reader,
  scope: Scope,
  { without, namespaces }: Restrictions,
): Promise<readonly TargetsReading[]> {
  const isOff = without.includes('injection');
  const kinds = INJECTION_TARGETS.filter(([{ kind }]) => !isOff || OWN_TARGETS.has(kind));
  const readKind = async ([kind, resource]: (typeof kinds)[number]): Promise<TargetsReading> => {
    const ofConfigMap = resource.namespaced;
    const own = ofConfigMap ? CABUNDLE_CONFIGMAP : WEBHOOK_CONFIGURATION_NAME;
    const namespace = isOff && ofConfigMap ? scope.namespace : undefined;
    const fieldSelector = isOff ? `metadata.name=${own}` : undefined;
    const options = { namespace, fieldSelector, metadataOnly: true };
    const all = await listIn<KubeObject>(reader, resource, namespaces, options);
    if (all.kind === 'unread') return { kind, objects: all };
    const wanted = all.value.filter((object) => requestOf(kind, object, scope).kind !== 'none');
    const found = await mapConcurrent(wanted, MAX_CONCURRENT_READS, ({ metadata = {} }) => {
      const { namespace, name = '' } = metadata;
      return reader.get<RawTarget & KubeObject>(resource, { namespace, name });
    });
    const objects = mapReading(presentAmong(found), (some) =>
      some.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)),
    );
    return { kind, objects };
  };
  return Promise.all(kinds.map(readKind));
}

/** Gatehouse's ClusterTrustBundle, in the newest version that the API server serves, if any. */
async function readTrustBundle({ list }: Reader): Promise<TargetsReading> {
  const fieldSelector = `metadata.name=${TRUST_BUNDLE}`;
  let objects: Reading<readonly RawTarget[]> = read([]);
  for (const resource of CLUSTER_TRUST_BUNDLES) {
    const found = await list<RawTarget & KubeObject>(resource, { fieldSelector });
    objects = orEmpty(found);
    if (found.kind === 'read' || found.reason !== 'NotInstalled') break;
  }
  return { kind: TARGET_KINDS.clusterTrustBundle, objects };
}

async function readSources(
  reader: Reader,
  targets: readonly TargetsReading[],
  scope: Scope,
): Promise<SourceReadings> {
  const refs = new Map<string, SourceRef>();
  for (const { kind, objects } of targets)
    for (const object of valueOf(objects) ?? [])
      for (const ref of sourcesOf(requestOf(kind, object, scope))) refs.set(sourceName(ref), ref);
  const sources = new Map<string, Reading<SourceObject | undefined>>();
  for (const [key, ref] of refs) sources.set(key, await readSource(reader, ref));
  return sources;
}

async function readSource(
  { get, list }: Reader,
  { kind, namespace, name, key }: SourceRef,
): Promise<Reading<SourceObject | undefined>> {
  const readObject = async (resource: Resource, ref: NamedRef) =>
    mapReading(await get<SourceObject & KubeObject>(resource, ref), (source) =>
      source === undefined ? undefined : toSourceObject(source, key),
    );
  if (kind !== 'Certificate')
    return await readObject(kind === 'Secret' ? secrets : configMaps, { namespace, name });
  // Gatehouse serves the status page, and it has permission to list Certificates, not to get them.
  const found = await list<KubeObject>(certificates, { namespace, fieldSelector: `metadata.name=${name}` });
  const secretName = textIn(valueOf(found)?.[0], 'spec', 'secretName');
  return secretName === ''
    ? mapReading(found, () => undefined)
    : await readObject(secrets, { namespace, name: secretName });
}

const requestOf = (kind: TargetKind, object: KubeObject, scope: Scope): InjectionRequest =>
  injectionRequest(kind.kind, withOwnRequest(kind, object, scope).metadata, scope.compat);

/** Gatehouse injects its own objects without an annotation. */
export function withOwnRequest<T extends KubeObject>(kind: TargetKind, object: T, { namespace }: Scope): T {
  const { metadata = {} } = object;
  const own = kind.kind === 'ConfigMap' ? `${namespace}/${CABUNDLE_CONFIGMAP}` : WEBHOOK_CONFIGURATION_NAME;
  const isOwn =
    (kind.kind === 'ConfigMap' || kind.kind.endsWith('WebhookConfiguration')) && objectKey(metadata) === own;
  return isOwn
    ? { ...object, metadata: { ...metadata, annotations: { [INJECT_CABUNDLE]: 'true' } } }
    : object;
}
